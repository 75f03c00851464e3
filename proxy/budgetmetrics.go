package proxy

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirproject/weir/internal/serve/budget"
)

var (
	ofBudget = []string{"budget", "level"}

	descBudgetBytes = prometheus.NewDesc("weir_proxy_budget_bytes",
		"The memory that counts against a budget: request heads, connections without an accepted credential, or streams whose responses were not read.", ofBudget, nil)
	descBudgetLimit = prometheus.NewDesc("weir_proxy_budget_limit_bytes",
		"The bound of a budget.", []string{"budget"}, nil)
	descBudgetRefused = prometheus.NewDesc("weir_proxy_budget_refused_total",
		"Requests that were refused because a budget was used up.", ofBudget, nil)
	descUnknownConnections = prometheus.NewDesc("weir_proxy_connections_unknown",
		"Open connections without an accepted credential.", nil, nil)
	descConnectionsClosed = prometheus.NewDesc("weir_proxy_connections_closed_total",
		"Connections that were closed for others, or because their client went beyond a bound.", []string{"for"}, nil)
)

func describeBudgets(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descBudgetBytes, descBudgetLimit, descBudgetRefused, descUnknownConnections, descConnectionsClosed} {
		ch <- d
	}
}

func collectBudget(ch chan<- prometheus.Metric, name string, b *budget.Budget) {
	ch <- prometheus.MustNewConstMetric(descBudgetLimit, prometheus.GaugeValue, float64(b.Limit()), name)
	for _, u := range b.Usage() {
		ch <- prometheus.MustNewConstMetric(descBudgetBytes, prometheus.GaugeValue, float64(u.Used), name, u.Level)
		ch <- prometheus.MustNewConstMetric(descBudgetRefused, prometheus.CounterValue, float64(u.Refused), name, u.Level)
	}
}

func (cs *connections) collect(ch chan<- prometheus.Metric) {
	collectBudget(ch, "heads", cs.heads)
	collectBudget(ch, "connections", cs.memory)
	collectBudget(ch, "streams", cs.streams)
	ch <- prometheus.MustNewConstMetric(descUnknownConnections, prometheus.GaugeValue, float64(cs.unknownCount()))
	for why := range closeReasons {
		ch <- prometheus.MustNewConstMetric(descConnectionsClosed, prometheus.CounterValue, float64(cs.closed[why].Load()), why.String())
	}
}
