// Package storage runs kube-apiserver's own suites for storage,
// k8s.io/apiserver/pkg/storage/testing, on the watch cache.
//
// The suites are about [k8s.io/apiserver/pkg/storage.Interface]. What they write goes to
// kube-apiserver's store on a real etcd. What they read is a request over HTTP that the watch cache
// answers, fed from a watch on that store: nothing they read comes from etcd, as nothing does when
// kube-apiserver runs them on its own cache.
//
// Each suite is run, or left out with its reason. One that upstream adds is a failure until it is
// either.
package storage
