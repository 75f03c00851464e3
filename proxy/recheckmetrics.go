package proxy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	descRechecks = prometheus.NewDesc("weir_proxy_rechecks_total",
		"Questions asked about callers of open watches: whose token it is, and whether they have a permission.", []string{"about"}, nil)
	descQuestions = prometheus.NewDesc("weir_proxy_recheck_questions",
		"Questions that are asked again and again, as long as the watches are open.", nil, nil)
	descPeriod = prometheus.NewDesc("weir_proxy_recheck_period_seconds",
		"In what time each of them is to be asked once.", nil, nil)
	descRecheckAge = prometheus.NewDesc("weir_proxy_recheck_age_seconds",
		"How long ago the one was asked that has waited longest.", nil, nil)
)

func describeRechecks(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descRechecks, descQuestions, descPeriod, descRecheckAge} {
		ch <- d
	}
}

func (c *rechecks) collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(descRechecks, prometheus.CounterValue, float64(c.tokens.Load()), "token")
	ch <- prometheus.MustNewConstMetric(descRechecks, prometheus.CounterValue, float64(c.permissions.Load()), "permission")
	n, cycle := c.count()
	ch <- prometheus.MustNewConstMetric(descQuestions, prometheus.GaugeValue, float64(n))
	ch <- prometheus.MustNewConstMetric(descPeriod, prometheus.GaugeValue, cycle.Seconds())
	ch <- prometheus.MustNewConstMetric(descRecheckAge, prometheus.GaugeValue, c.age(time.Now()).Seconds())
}
