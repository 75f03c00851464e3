// Package informer contains end-to-end tests of the typed informer with a real kube-apiserver and
// etcd. At the end, each test compares the informer's objects with the objects of a quorum LIST.
package informer
