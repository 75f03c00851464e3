// Package programs runs existing programs with a real kube-apiserver, unchanged and with the
// drop-in for client-go. It checks that both have the same result, and measures both.
//
// The trial of a changed program fails if no informer of the drop-in reads its watches itself,
// because the change then has no effect.
//
// A program that only reads must report the same objects after changes. A program that writes runs
// on a separate cluster each time, and must have the same effect: kube-scheduler must bind the same
// pods to the same nodes, kube-controller-manager must produce the state that Kubernetes promises
// after each step of some objects' lives, and cert-manager must issue the same certificates.
//
// Each program has a directory with a module that requires the program, a main package, and a file
// with the changed lines (see changes). The main package starts the tested part of the program. If
// the program only reads, the main package also reports its objects (see package report). The
// repository contains only the replaced expressions of a program's code. Each program is built
// twice from the module cache, unchanged and changed.
//
// Weir's requirement raises client-go to 0.37 in both builds. The descheduler's module requires a
// k8s.io/kube-openapi that is not available, and replaces it; its directory here does the same.
// With client-go 0.37, the descheduler needs k8s.io/component-helpers 0.37. external-dns requires a
// github.com/openshift/api that is not available, which its directory replaces; its version 0.23
// needs Go 1.27.
package programs
