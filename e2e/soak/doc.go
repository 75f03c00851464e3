// Package soak runs informers through faults of a real cluster and checks their events: the typed
// informer, the drop-in, client-go's own as the control, and controller-runtime's client with
// read-your-writes, each on two kube-apiservers and through two proxies, while every connection is
// cut and stalled, servers are killed and paused, etcd is compacted and restored, and a
// CustomResourceDefinition changes. It takes 90 seconds, or as long as -soak.for says: see make
// soak.
package soak
