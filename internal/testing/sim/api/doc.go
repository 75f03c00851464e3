// Package api is the simulation's API servers: HTTP in memory, in front of a model of etcd, with
// faults between.
//
// The model, a History, has every state that the objects of one resource ever had, and its
// revision. It knows nothing of HTTP, of time beyond the moment of each commit, or of the code
// under test. Worlds are small (a few keys, some dozens of writes), so each revision keeps its
// whole state. A History is a list of eras. A restore from a backup starts a new era, which shares
// the past of the one before up to a revision and gives later revisions other content. A server
// that counts otherwise starts an era that shares nothing.
//
// A Cluster has one history and some servers, each with a view of it: one sees commits late, one
// counts from a restored backup, one knows nothing of sendInitialEvents, one writes its JSON keys
// in another order. A Client is an http.RoundTripper whose requests go to the server that it is
// routed to at the moment. What goes wrong on the way is a Rule.
//
// The answers follow the contract of LIST and WATCH as kube-apiserver v1.37 implements it. Nothing
// here knows the code under test, except that package request parses the paths of URLs.
//
// There are no goroutines but one for each request that goes to a Backend, such as a watch cache:
// an answer is computed when its request comes, a WATCH's next event when its client reads. So an
// idle world costs nothing, and virtual time alone decides what is seen when.
package api
