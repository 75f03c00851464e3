package metrics

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/registry"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestDocumented checks that docs/reference/informer-metrics.md lists exactly the exported metrics,
// with their types and labels.
func TestDocumented(t *testing.T) {
	want := documented(t)
	native(t, serve(t), "pods")
	registry.AddUnadopted("later")
	gatherer := prometheus.NewRegistry()
	gatherer.MustRegister(NewCollector())
	families, err := gatherer.Gather()
	check.NoError(t, err)
	for _, f := range families {
		got := strings.ToLower(f.GetType().String())
		for _, l := range f.GetMetric()[0].GetLabel() {
			switch l.GetName() {
			case "name", "group", "version", "kind":
			default:
				got += " " + l.GetName()
			}
		}
		check.Equal(t, want[f.GetName()], got, "%s is %q, documented", f.GetName(), got)
		delete(want, f.GetName())
	}
	for name := range want {
		t.Errorf("there is no %s", name)
	}
}

// documented returns the metrics that docs/reference/informer-metrics.md lists, with their types
// and labels.
func documented(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(weir_\\w+)` \\| (\\w+) \\| *(\\w*) *\\|").FindAllStringSubmatch(read(t, "../docs/reference/informer-metrics.md"), -1) {
		all[row[1]] = strings.TrimSpace(row[2] + " " + row[3])
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	check.NoError(t, err)
	return string(text)
}

// TestReasonsDocumented checks that docs/reference/informer-metrics.md explains each reason for a
// relist.
func TestReasonsDocumented(t *testing.T) {
	text := read(t, "../docs/reference/informer-metrics.md")
	for reason := range (reflector.Relists{}).All() {
		if !strings.Contains(text, "\n| `"+reason.String()+"` | ") {
			t.Errorf("%s is not explained", reason)
		}
	}
}

// TestShown checks that the dashboard shows every metric, that the dashboard and the alert rules
// use no other metric, and that the documentation names every alert.
func TestShown(t *testing.T) {
	all := documented(t)
	dashboard, rules, page := read(t, "../deploy/informers/dashboard.json"), read(t, "../deploy/informers/rules.yaml"), read(t, "../docs/reference/informer-metrics.md")
	for _, name := range regexp.MustCompile(`weir_informer_\w+`).FindAllString(dashboard+rules, -1) {
		if _, ok := all[name]; !ok {
			t.Errorf("there is no %s", name)
		}
	}
	for name := range all {
		if !strings.Contains(dashboard, name) {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
	for _, alert := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(rules, -1) {
		if !strings.Contains(page, "`"+alert[1]+"`") {
			t.Errorf("the page does not name %s", alert[1])
		}
	}
}
