package proxy

import (
	"github.com/prometheus/client_golang/prometheus"
)

var (
	bySeat = []string{"request_kind", "level"}

	descSeats = prometheus.NewDesc("weir_proxy_seats",
		"Requests that have a seat.", bySeat, nil)
	descWaiting = prometheus.NewDesc("weir_proxy_seat_queue_length",
		"Requests that wait for a seat.", bySeat, nil)
	descWatchBudget = prometheus.NewDesc("weir_proxy_watch_memory_budget_bytes",
		"The bound of the memory of all watches; 0: none.", nil, nil)
	descWatchUsed = prometheus.NewDesc("weir_proxy_watch_memory_used_bytes",
		"The memory of all watches, with their connections and what is kept for slow ones.", nil, nil)
	descWatchLate = prometheus.NewDesc("weir_proxy_watch_memory_late_bytes",
		"The part of the memory of watches that is kept for slow ones.", nil, nil)
	descShed = prometheus.NewDesc("weir_proxy_watches_shed_total",
		"Watches of clients that took nothing, or less than came, ended to stay within the memory for watches.", nil, nil)
	descWatchRefused = prometheus.NewDesc("weir_proxy_watches_refused_total",
		"Watches, logs and upgraded connections that were refused, for all: too many altogether; user: too many of one user; memory: none is left for watches.", []string{"for"}, nil)
	descUnreadBudget = prometheus.NewDesc("weir_proxy_response_memory_budget_bytes",
		"The bound of the memory of responses that wait for their clients to read them; 0: none.", nil, nil)
	descUnreadUsed = prometheus.NewDesc("weir_proxy_response_memory_used_bytes",
		"The memory of responses that wait for their clients to read them, of callers that are known or unknown.", []string{"level"}, nil)
	descUnreadRefused = prometheus.NewDesc("weir_proxy_response_memory_refused_total",
		"Reads that were refused because the responses that their callers have not read take all the memory that they may.", []string{"level"}, nil)
)

func describeFlowControl(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descSeats, descWaiting, descWatchBudget, descWatchUsed, descWatchLate, descWatchRefused, descShed, descUnreadBudget, descUnreadUsed, descUnreadRefused} {
		ch <- d
	}
}

func (a *flowControl) collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for requestKind, s := range map[string]*seatPool{"readOnly": a.readOnly, "mutating": a.mutating, "watchStart": a.watchStarts} {
		taken, waiting := s.counts()
		for level := range priorityLevels {
			gauge(descSeats, float64(taken[level]), requestKind, level.String())
			gauge(descWaiting, float64(waiting[level]), requestKind, level.String())
		}
	}
	l := a.longRunning
	gauge(descWatchBudget, float64(max(l.memory, 0)))
	gauge(descWatchUsed, float64(l.memoryUsed()))
	gauge(descWatchLate, float64(l.late()))
	for why, n := range map[string]uint64{"all": l.rejected[limitTotal].Load(), "user": l.rejected[limitUser].Load(), "memory": l.rejected[limitMemory].Load()} {
		ch <- prometheus.MustNewConstMetric(descWatchRefused, prometheus.CounterValue, float64(n), why)
	}
}

func (u unreadMemory) collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(descUnreadBudget, prometheus.GaugeValue, float64(max(u.Limit(), 0)))
	for _, l := range u.Usage() {
		ch <- prometheus.MustNewConstMetric(descUnreadUsed, prometheus.GaugeValue, float64(l.Used), l.Level)
		ch <- prometheus.MustNewConstMetric(descUnreadRefused, prometheus.CounterValue, float64(l.Refused), l.Level)
	}
}
