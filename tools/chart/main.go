// Command chart renders a Helm chart, as helm template does, with values from stdin. It checks the
// values against the chart's values.schema.json.
//
//	echo 'replicas: 3' | chart -release weir-proxy -namespace weir-system DIR
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

func main() {
	var release common.ReleaseOptions
	flag.StringVar(&release.Name, "release", "weir-proxy", "the name of the release")
	flag.StringVar(&release.Namespace, "namespace", "weir-system", "the namespace of the release")
	flag.Parse()
	if err := render(flag.Arg(0), release, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func render(dir string, release common.ReleaseOptions, in io.Reader, out io.Writer) error {
	chart, err := loader.LoadDir(dir)
	if err != nil {
		return err
	}
	if err := chart.Validate(); err != nil {
		return err
	}
	set, err := loader.LoadValues(in)
	if err != nil {
		return err
	}
	values, err := util.ToRenderValues(chart, set, release, common.DefaultCapabilities)
	if err != nil {
		return err
	}
	files, err := engine.Engine{Strict: true}.RenderWithContext(context.Background(), chart, values)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) == ".yaml" && strings.TrimSpace(files[name]) != "" {
			if _, err := fmt.Fprintf(out, "---\n%s\n", strings.TrimSpace(files[name])); err != nil {
				return err
			}
		}
	}
	return nil
}
