// Package programs runs existing programs on the drop-in for client-go, and unchanged, with a real
// kube-apiserver: both must have the same result, and are measured.
//
// A changed program in which no informer of the drop-in reads its watches itself fails its trial:
// the change had no effect.
//
// A program that observes must end with the same knowledge after changes. One that writes runs on a
// separate cluster each time, and must have the same effect: kube-scheduler must bind the same pods
// to the same nodes, kube-controller-manager must leave what Kubernetes promises after each step of
// some objects' lives, cert-manager must issue the same certificates.
//
// Each program has a directory: a module that requires it, with a main package that starts the
// tested part and, if it observes, reports its knowledge of the cluster (see package report), and a
// file that lists the changed lines (see changes). The repository contains only the replaced
// expressions of a program's code. A program is built twice from the module cache, unchanged and
// changed.
//
// Weir's requirement raises client-go to 0.37 in both builds. The descheduler's module requires a
// k8s.io/kube-openapi that is not available, and replaces it, as its directory does; with client-go
// 0.37 it needs k8s.io/component-helpers 0.37. external-dns requires a github.com/openshift/api
// that is not available, which its directory replaces; its 0.23 needs Go 1.27.
package programs
