// Package storage runs kube-apiserver's own suites for storage,
// k8s.io/apiserver/pkg/storage/testing, on the watch cache.
//
// The suites test a [k8s.io/apiserver/pkg/storage.Interface]. Their writes go to kube-apiserver's
// store on a real etcd. Their reads are HTTP requests that the watch cache answers, which is fed
// from a watch on that store. No read is answered from etcd, as when kube-apiserver runs the suites
// on its own cache.
//
// Each suite either runs, or is left out with a reason. A suite that upstream adds fails the tests
// until it is added to one of the two lists.
package storage
