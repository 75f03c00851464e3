// Package controllerruntime contains end-to-end tests of controller-runtime's managers with a real
// kube-apiserver and etcd. They run real controllers with leader election, with
// controller-runtime's own informers and with Weir's. At the end, each test compares a manager's
// cache with a quorum LIST, object by object.
package controllerruntime
