// Package servers compares a kube-apiserver with weir's proxy in front of it. Both serve the same
// pods.
//
// A [Scenario] is one measurement. [Bench.Run] measures the two servers in turn, several times, and
// reports the median of each figure. Each run of the proxy uses a new process, which caches the
// pods before the measurement starts. The process that calls Run sends the requests. No figure
// includes the CPU time and memory of that process.
//
// A [Replay] is an incident: clients send requests to an API server, in several ways. Each way runs
// once, on separate servers. A trace records a server's memory and CPU time.
//
// If a server runs on this machine, its CPU time and memory are read from /proc, which costs the
// server nothing. Otherwise, or if a process on this machine only forwards connections to the
// server, they are read from the server's /metrics.
package servers
