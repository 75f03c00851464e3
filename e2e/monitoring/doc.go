// Package monitoring tests deploy/informers and deploy/proxy with Prometheus' own programs.
// promtool checks the alert rules. Prometheus servers, which scrape informers and a proxy, evaluate
// the dashboards' queries.
package monitoring
