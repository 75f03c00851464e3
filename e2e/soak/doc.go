// Package soak runs informers through faults of a real cluster and checks their events. The
// informers are the typed informer, the drop-in, client-go's own as the control, and
// controller-runtime's client with read-your-writes. Each of them runs on two kube-apiservers
// directly, and through two proxies. Meanwhile the test cuts and stalls every connection, kills and
// pauses servers, compacts and restores etcd, and changes a CustomResourceDefinition. The test
// takes 90 seconds, or as long as -soak.for says: see make soak.
package soak
