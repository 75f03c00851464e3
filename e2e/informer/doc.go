// Package informer has the end-to-end tests of the typed informer with a real kube-apiserver and
// etcd: at the end each compares the informer's objects with a quorum LIST, object by object.
package informer
