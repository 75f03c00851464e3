// Package monitoring tests deploy/informers with Prometheus' own programs. promtool checks the
// alert rules. A Prometheus server, which scrapes informers, evaluates the dashboard's queries.
package monitoring
