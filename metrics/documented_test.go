package metrics

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestDocumented: docs/informer-metrics.md lists exactly the metrics that there are, with their
// types and labels.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/informer-metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(weir_\\w+)` \\| (\\w+) \\| *(\\w*) *\\|").FindAllStringSubmatch(string(text), -1) {
		want[row[1]] = strings.TrimSpace(row[2] + " " + row[3])
	}
	native(t, serve(t), "pods")
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector())
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		got := strings.ToLower(f.GetType().String())
		for _, l := range f.GetMetric()[0].GetLabel() {
			switch l.GetName() {
			case "name", "group", "version", "kind":
			default:
				got += " " + l.GetName()
			}
		}
		if want[f.GetName()] != got {
			t.Errorf("%s is %q, documented %q", f.GetName(), got, want[f.GetName()])
		}
		delete(want, f.GetName())
	}
	for name := range want {
		t.Errorf("there is no %s", name)
	}
}
