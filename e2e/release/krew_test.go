package release

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// checkKrew checks the krew manifest of a release in the directory dist. The manifest must name the
// archive for this platform, with the version and the archive's checksum.
func checkKrew(t *testing.T, dist string) {
	t.Helper()
	archive := fmt.Sprintf("weir_%s_linux_%s.tar.gz", version, runtime.GOARCH)
	packed, err := os.ReadFile(filepath.Join(dist, archive))
	check.NoError(t, err)
	manifest, err := os.ReadFile(filepath.Join(dist, "krew.yaml"))
	check.NoError(t, err)
	for _, placeholder := range []string{"VERSION", "SHA256_linux_" + runtime.GOARCH} {
		if strings.Contains(string(manifest), placeholder) {
			t.Errorf("krew.yaml has %s still", placeholder)
		}
	}
	want := fmt.Sprintf("/releases/download/%s/%s\n      sha256: %x\n", version, archive, sha256.Sum256(packed))
	if !strings.Contains(string(manifest), want) || !strings.Contains(string(manifest), "\n  version: "+version+"\n") {
		t.Errorf("krew.yaml lacks %q of %s, in\n%s", want, version, manifest)
	}
}

// checkChart checks that the Helm chart in the directory dist has the version of the release.
func checkChart(t *testing.T, dist string) {
	t.Helper()
	text := run(t, dist, nil, "tar", "-xzOf", "weir-proxy-chart_"+version+".tgz", "weir-proxy/Chart.yaml")
	if !strings.Contains(text, "\nversion: "+strings.TrimPrefix(version, "v")+"\nappVersion: "+version+"\n") {
		t.Errorf("the chart is\n%s", text)
	}
}
