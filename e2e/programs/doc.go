// Package programs runs programs that others wrote on the drop-in for client-go, beside themselves
// unchanged, on a real kube-apiserver: they must come to the same end, and are measured.
//
// A changed program in which no informer of the drop-in reads its watches itself fails its trial:
// what was changed had no effect.
//
// A program that observes must come to know the same, through changes. One that writes is run on a
// cluster of its own each time, and must do the same to it: kube-scheduler must bind the same pods
// to the same nodes, kube-controller-manager must leave what Kubernetes promises after each step of
// some objects' lives, cert-manager must issue the same certificates.
//
// Each program has a directory: a module that requires it, with a main package that starts what is
// to be tried and, where it observes, reports what it has made of the cluster (see package report),
// and a file that says which lines of it are changed (see changes). Nothing of a program's code is
// kept here but the expressions that are replaced. A program is built twice, as it is and with its
// changes, out of the module cache.
//
// Weir's requirement raises client-go to 0.37 in both builds. The descheduler's module asks for a
// k8s.io/kube-openapi that is not to be had, and replaces it, as its directory does; with client-go
// 0.37 it needs k8s.io/component-helpers 0.37. external-dns asks for a github.com/openshift/api
// that is not to be had, which its directory replaces; its 0.23 needs Go 1.27.
package programs
