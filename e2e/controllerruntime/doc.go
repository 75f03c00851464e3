// Package controllerruntime holds the end-to-end tests of managers of controller-runtime against a
// real kube-apiserver and etcd: real controllers with leader election, the same tests with
// controller-runtime's own informers and with ours. Each ends by comparing what a manager's cache
// holds with a quorum LIST, object by object.
package controllerruntime
