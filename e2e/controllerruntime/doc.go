// Package controllerruntime contains end-to-end tests of controller-runtime's managers with a real
// kube-apiserver and etcd. Each test runs real controllers twice: with controller-runtime's own
// informers, and with Weir's. The test compares the cache of a manager with a quorum LIST.
package controllerruntime
