// Package storage runs kube-apiserver's own tests of storage, k8s.io/apiserver/pkg/storage/testing,
// on the watch cache.
//
// The suites test a [k8s.io/apiserver/pkg/storage.Interface]. They write to kube-apiserver's store
// on a real etcd. They read by HTTP requests to the watch cache, which receives the objects from a
// watch of that store. etcd answers no read. The same is true when kube-apiserver runs the suites
// on its own cache.
//
// Each suite is either run, or left out with a reason. A suite that upstream adds makes a test fail
// until it is in one of the two lists.
package storage
