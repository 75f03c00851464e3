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

func readDashboard(t *testing.T, folder string) (d dashboard) {
	t.Helper()
	raw, err := os.ReadFile(file(folder, "dashboard.json"))
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
// informer, and one that scrapes a proxy with a client. It checks that each query of the dashboards
// returns data, and that the dashboards' variables have values. It also checks that the alert rules
// can be evaluated and that no alert fires.
func TestDashboard(t *testing.T) {
	for folder, m := range monitored {
		t.Run(folder, func(t *testing.T) {
			d := readDashboard(t, folder)
			p := startPrometheus(t, folder, m.start(t))
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
			if names := p.values(m.names); !slices.Equal(names, m.want) {
				t.Errorf("%s are %q", m.names, names)
			}
			queries := 0
			for _, panel := range d.Panels {
				for _, target := range panel.Targets {
					queries++
					p.until(fmt.Sprintf("%s has data: %s", panel.Title, target.Expr), func() error {
						return checkSeries(p.query(d.variables(target.Expr)), target.LegendFormat, m.label, m.series)
					})
				}
			}
			if queries < m.queries {
				t.Errorf("%d queries", queries)
			}
			p.until("the rules are well", func() error { return p.checkRules(m.rules) })
		})
	}
}

// checkSeries returns an error if there are no series, or if a label that the legend uses is
// missing. If the legend uses the given label, there must be a series for each of the values.
func checkSeries(series []map[string]string, legend, label string, values []string) error {
	if len(series) == 0 {
		return errors.New("no data")
	}
	for _, used := range []string{"name", "instance", "handler", "purpose", "reason", "verb", "resource", "code", "level", "request_kind", "for", "state"} {
		if strings.Contains(legend, "{{"+used+"}}") && series[0][used] == "" {
			return fmt.Errorf("no label %s", used)
		}
	}
	if strings.Contains(legend, "{{"+label+"}}") {
		for _, value := range values {
			if !slices.ContainsFunc(series, func(s map[string]string) bool { return s[label] == value }) {
				return fmt.Errorf("nothing of %s", value)
			}
		}
	}
	return nil
}

// checkRules returns an error if an alert rule cannot be evaluated, or if an alert is pending or
// fires.
func (p *prometheus) checkRules(least int) error {
	var data struct {
		Groups []struct {
			Rules []struct {
				Name, Health, LastError, State string
			}
		}
	}
	p.get("rules", nil, &data)
	if len(data.Groups) != 1 || len(data.Groups[0].Rules) < least {
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
	for folder := range monitored {
		d := readDashboard(t, folder)
		ids := map[int]bool{}
		taken := map[[2]int]string{}
		for _, panel := range d.Panels {
			if ids[panel.ID] || panel.Title == "" || panel.Type != "row" && len(panel.Targets) == 0 {
				t.Errorf("%s: %+v", folder, panel)
			}
			ids[panel.ID] = true
			at := panel.GridPos
			for x := at.X; x < at.X+at.W; x++ {
				for y := at.Y; y < at.Y+at.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
						t.Fatalf("%s: %s is over %q at %d, %d", folder, panel.Title, other, x, y)
					}
					taken[[2]int{x, y}] = panel.Title
				}
			}
		}
	}
}
