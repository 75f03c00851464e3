package conn

import "github.com/weirproject/weir/internal/serve/budget"

// Metrics reports the metrics of the listener by calls of gauge and counter. In labels, names and
// values alternate.
func (cs *Listener) Metrics(gauge, counter func(name, help string, value float64, labels ...string)) {
	gauge("weir_proxy_connections", "Open connections of clients.", float64(cs.Count()))
	gauge("weir_proxy_connections_unknown", "Open connections without an accepted credential.", float64(cs.unknownCount()))
	refused := uint64(0)
	for why := range closeReasons {
		counter("weir_proxy_connections_closed_total", "Connections that the proxy closed to admit others, or because their client exceeded a limit.",
			float64(cs.closed[why].Load()), "for", why.String())
		refused += cs.closed[why].Load()
	}
	counter("weir_proxy_connections_refused_total", "Connections that the proxy closed because too many were open.", float64(refused))
	for name, b := range map[string]*budget.Budget{"heads": cs.heads.Budget, "connections": cs.memory, "streams": cs.streams} {
		gauge("weir_proxy_budget_limit_bytes", "The limit of a budget.", float64(b.Limit()), "budget", name)
		for _, u := range b.Usage() {
			gauge("weir_proxy_budget_bytes",
				"The memory that counts against a budget: request heads, connections without an accepted credential, or streams whose responses were not read.",
				float64(u.Used), "budget", name, "level", u.Level)
			counter("weir_proxy_budget_refused_total", "Requests that the proxy refused because a budget was used up.",
				float64(u.Refused), "budget", name, "level", u.Level)
		}
	}
}
