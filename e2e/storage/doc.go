// Package storage runs kube-apiserver's own tests of storage, k8s.io/apiserver/pkg/storage/testing,
// on the watch cache.
//
// The suites test a [k8s.io/apiserver/pkg/storage.Interface]. Their writes go to kube-apiserver's
// store on a real etcd. Their reads are HTTP requests to the watch cache, which gets the objects by
// a list and a watch of that store. So etcd answers none of the suites' reads.
//
// Each suite is either run, or left out with a reason. A suite that upstream adds makes a test fail
// until it is in one of the two lists.
package storage
