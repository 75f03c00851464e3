// Package api has the API servers of the simulation: they serve HTTP in memory, in front of a model
// of etcd, and faults can affect each request.
//
// The model is a History. It has every past state of the objects of one resource, with the revision
// of each state. The model does not depend on HTTP, on time (except that each commit has one), or
// on the code under test. Worlds are small (a few keys, some dozens of writes), so a History stores
// the whole state of each revision. A History is a list of eras. A restore from a backup starts a
// new era. The new era shares its states up to the backup's revision with the era before, and has
// other states at later revisions. A server that counts revisions differently starts an era that
// shares no states.
//
// A Cluster has one history and some servers. Each server has its own view of the history: one may
// see commits late, one may lack sendInitialEvents, and one may write JSON keys in another order. A
// Client is an http.RoundTripper. Its requests go to the server to which it is currently routed. A
// Rule describes a fault.
//
// The answers follow the contract of LIST and WATCH as kube-apiserver v1.37 implements it. This
// package does not use the code under test, except package request, which parses the paths of URLs.
//
// The package starts no goroutines, except one for each request to a Backend, such as a watch
// cache. A server computes an answer when it receives the request, and computes a WATCH's next
// event when the client reads. An idle world therefore needs no CPU time, and virtual time alone
// decides which client sees a change when.
package api
