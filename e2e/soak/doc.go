// Package soak runs informers while a real cluster has faults, and checks their events. The
// informers are the typed informer, the drop-in, and controller-runtime's client with
// read-your-writes. client-go's own informer is the control, with which they are compared. Each of
// them runs twice: directly on two kube-apiservers, and through two proxies. Meanwhile the test
// cuts and stalls connections, kills and pauses servers, compacts and restores etcd, and changes a
// CustomResourceDefinition. The test takes 90 seconds, or as long as -soak.for says: see make soak.
package soak
