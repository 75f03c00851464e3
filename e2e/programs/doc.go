// Package programs runs programs that others wrote on the drop-in for client-go, beside themselves unchanged, on a real kube-apiserver:
// they must come to the same end, and are measured.
//
// A program that observes must come to know the same, through changes. One that writes is run on a cluster of its own each time, and must
// do the same to it: kube-scheduler must bind the same pods to the same nodes, kube-controller-manager must leave what Kubernetes promises
// after each step of some objects' lives.
//
// Each program has a directory: a module that requires it, with a main package that starts what is to be tried and, where it observes,
// reports what it has made of the cluster (see package report), and a file that says which lines of it are changed (see changes). Nothing
// of a program's code is kept here but the expressions that are replaced. A program is built twice, as it is and with its changes, out of
// the module cache.
package programs
