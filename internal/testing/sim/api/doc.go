// Package api is the simulation's API servers: HTTP in memory, in front of the model in package
// etcd, with faults between.
//
// A Cluster has one history and some servers, each with a view of it: one sees commits late, one
// counts from a restored backup, one knows nothing of sendInitialEvents, one writes its JSON keys
// in another order. A Client is an http.RoundTripper whose requests go to the server that it is
// routed to at the moment. What goes wrong on the way is a Rule.
//
// The answers follow the contract of LIST and WATCH as kube-apiserver v1.37 implements it. Nothing
// here knows the code under test.
//
// There are no goroutines but one for each request that goes to a Backend, such as a watch cache:
// an answer is computed when its request comes, a WATCH's next event when its client reads. So an
// idle world costs nothing, and virtual time alone decides what is seen when.
package api
