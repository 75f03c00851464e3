// Package informer holds the end-to-end tests of the typed informer against a real kube-apiserver
// and etcd: each ends by comparing what the informer holds with a quorum LIST, object by object.
package informer
