package monitoring

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// dashboard contains the fields of a Grafana dashboard that the tests read.
type dashboard struct {
	Title      string
	Templating struct {
		List []struct {
			Name, Type string
			Definition string
			AllValue   string
		}
	}
	Panels []panel
}

type panel struct {
	ID      int
	Type    string
	Title   string
	GridPos struct{ X, Y, W, H int }
	Targets []struct{ Expr, LegendFormat, RefID string }
	Panels  []panel
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	raw, err := os.ReadFile(dashboardFile)
	check.NoError(t, err)
	check.NoError(t, json.Unmarshal(raw, &d))
	return d
}

// variables replaces the variables in a query as Grafana does when all values of each variable are
// selected. It also replaces $__rate_interval, the interval of rates.
func (d *dashboard) variables(text string) string {
	for _, v := range d.Templating.List {
		if v.AllValue != "" {
			text = strings.ReplaceAll(text, "$"+v.Name, v.AllValue)
		}
	}
	return strings.ReplaceAll(text, "$__rate_interval", "15s")
}

// TestDashboard runs a Prometheus server that scrapes a process with a typed informer and a drop-in
// informer. It checks that each query of the dashboard returns data of both informers, and that the
// dashboard's variables have values. It also checks that the alert rules can be evaluated and that
// no alert fires.
func TestDashboard(t *testing.T) {
	d := readDashboard(t)
	p := startPrometheus(t, informers(t))
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			p.until("there are values of "+v.Name, func() error {
				if len(p.values(d.variables(v.Definition))) == 0 {
					return errors.New("there are none")
				}
				return nil
			})
		}
	}
	if names := p.values("label_values(weir_informer_synced, name)"); !slices.Equal(names, []string{"*v1.Pod", "pods"}) {
		t.Errorf("informers %q", names)
	}
	queries := 0
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			queries++
			p.until(fmt.Sprintf("%s has data: %s", panel.Title, target.Expr), func() error {
				return checkSeries(p.query(d.variables(target.Expr)), target.LegendFormat)
			})
		}
	}
	if queries < 25 {
		t.Errorf("%d queries", queries)
	}
	p.until("the rules are well", p.checkRules)
}

// checkSeries returns an error if there are no series, or if a label that the legend uses is
// missing. If the legend uses the label called name, both informers must have a series.
func checkSeries(series []map[string]string, legend string) error {
	if len(series) == 0 {
		return errors.New("no data")
	}
	for _, label := range []string{"name", "instance", "handler", "purpose", "reason", "verb"} {
		if strings.Contains(legend, "{{"+label+"}}") && series[0][label] == "" {
			return fmt.Errorf("no label %s", label)
		}
	}
	if strings.Contains(legend, "{{name}}") {
		for _, name := range []string{"pods", "*v1.Pod"} {
			if !slices.ContainsFunc(series, func(s map[string]string) bool { return s["name"] == name }) {
				return fmt.Errorf("nothing of %s", name)
			}
		}
	}
	return nil
}

// checkRules returns an error if an alert rule cannot be evaluated, or if an alert is pending or
// fires.
func (p *prometheus) checkRules() error {
	var data struct {
		Groups []struct {
			Rules []struct {
				Name, Health, LastError, State string
			}
		}
	}
	p.get("rules", nil, &data)
	if len(data.Groups) != 1 || len(data.Groups[0].Rules) < 9 {
		return fmt.Errorf("%+v", data)
	}
	for _, r := range data.Groups[0].Rules {
		if r.Health != "ok" || r.State != "inactive" {
			return fmt.Errorf("%+v", r)
		}
	}
	return nil
}

// TestPanels checks that each panel has a unique ID, a title and a query, and that no panel covers
// another.
func TestPanels(t *testing.T) {
	d := readDashboard(t)
	ids := map[int]bool{}
	taken := map[[2]int]string{}
	for _, panel := range d.Panels {
		if ids[panel.ID] || panel.Title == "" || panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("%+v", panel)
		}
		ids[panel.ID] = true
		at := panel.GridPos
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s is over %q at %d, %d", panel.Title, other, x, y)
				}
				taken[[2]int{x, y}] = panel.Title
			}
		}
	}
}
