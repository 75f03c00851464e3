// Package api has the API servers of the simulation: they serve HTTP in memory, in front of a model
// of etcd, and faults can affect each request.
//
// The model is a History. It contains every past state of the objects of one resource, with its
// revision. The model does not use HTTP or the code under test. It has no clock, but it records the
// time of each commit. Worlds are small (a few keys, some dozens of writes), so a History stores
// the whole state of each revision. A History is a list of eras. An era is a period in which each
// revision has exactly one state. A restore from a backup starts a new era. Up to the backup's
// revision, the new era shares the states of the era before. At later revisions its states differ.
// If the servers are replaced by others that count revisions differently, the new era shares no
// states.
//
// A Cluster has one history and some servers. Servers may differ: for example, one receives commits
// late, one does not support sendInitialEvents, and one writes JSON keys in another order. A Client
// is an http.RoundTripper. Route selects the server that handles its requests. A Rule describes a
// fault, and the plan of a request contains the faults that affect it.
//
// Responses follow the contract of LIST and WATCH as kube-apiserver v1.37 implements it. Of the
// code under test, this package uses only package request, which parses the paths of URLs.
//
// The package starts no goroutines, except one for each request to a Backend, such as a watch
// cache. A server computes a response when it receives the request, and the next event of a WATCH
// when the client reads. So an idle world needs no CPU time, and only virtual time decides when a
// client receives a change.
package api
