package conn

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
	descConnections = prometheus.NewDesc("weir_proxy_connections",
		"Open connections of clients.", nil, nil)
	descRefused = prometheus.NewDesc("weir_proxy_connections_refused_total",
		"Connections that were closed because there were too many.", nil, nil)
	descUnknownConnections = prometheus.NewDesc("weir_proxy_connections_unknown",
		"Open connections without an accepted credential.", nil, nil)
	descConnectionsClosed = prometheus.NewDesc("weir_proxy_connections_closed_total",
		"Connections that were closed for others, or because their client went beyond a bound.", []string{"for"}, nil)
)

// Describe sends the descriptions of the metrics of connections.
func Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descConnections, descRefused, descBudgetBytes, descBudgetLimit, descBudgetRefused, descUnknownConnections, descConnectionsClosed} {
		ch <- d
	}
}

// Collect sends the metrics of a listener.
func (cs *Listener) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, n int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge(descConnections, int64(cs.Count()))
	counter(descRefused, cs.rejected.Load())
	gauge(descUnknownConnections, int64(cs.unknownCount()))
	for why := range closeReasons {
		counter(descConnectionsClosed, cs.closed[why].Load(), why.String())
	}
	for name, b := range map[string]*budget.Budget{"heads": cs.heads.Budget, "connections": cs.memory, "streams": cs.streams} {
		gauge(descBudgetLimit, b.Limit(), name)
		for _, u := range b.Usage() {
			gauge(descBudgetBytes, u.Used, name, u.Level)
			counter(descBudgetRefused, u.Refused, name, u.Level)
		}
	}
}
