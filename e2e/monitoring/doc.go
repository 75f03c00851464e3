// Package monitoring checks deploy/informers with Prometheus' own programs: promtool the alert
// rules, and a Prometheus that scrapes informers the dashboard's queries.
package monitoring
