// Package monitoring checks deploy/informers with Prometheus' own programs. It checks the alert
// rules with promtool, and the dashboard's queries with a Prometheus server that scrapes informers.
package monitoring
