// Package controllerruntime has the end-to-end tests of controller-runtime's managers with a real
// kube-apiserver and etcd: real controllers with leader election, the same tests with
// controller-runtime's own informers and with Weir's. At the end each compares a manager's cache
// with a quorum LIST, object by object.
package controllerruntime
