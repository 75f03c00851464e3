// Package monitoring has Prometheus' own programs judge deploy/informers: promtool the alert rules,
// and a Prometheus that scrapes informers the dashboard's queries.
package monitoring
