// Package servers measures a kube-apiserver and weir's proxy in front of it side by side, with the
// same pods.
//
// A [Scenario] is one measurement. [Run] takes the two servers in turn, several times, and reports
// the median of each figure. Each run of the proxy has a fresh process, which holds the pods before
// anything is measured. The load comes from this process, whose CPU and memory no figure includes.
//
// A [Replay] is an incident: what clients do to an API server, in several ways, each once, on
// servers of its own that are traced.
//
// CPU and memory are read from /proc where a server runs on this machine, which costs it nothing,
// else from its /metrics: also where what listens on this machine only forwards to it.
package servers
