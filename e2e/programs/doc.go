// Package programs runs existing programs with a real kube-apiserver: unchanged, and changed to use
// Weir's drop-in for client-go. It checks that the unchanged and the changed program have the same
// result, and measures both.
//
// In the changed program, at least one informer of the drop-in must read its watches itself.
// Otherwise the change has no effect, and the test fails.
//
// If a program only reads, both must report the same objects after objects have changed. If a
// program writes, each runs on a separate cluster, and both must have the same effect:
//
// - kube-scheduler must bind the same pods to the same nodes.
// - kube-controller-manager must produce the expected objects after each step of a script.
// - cert-manager must issue the same certificates.
// - Cluster API must create the same Machines and report the same status.
//
// The API server restarts while cilium, CoreDNS, Cluster API, Istio and Traefik run.
//
// Each program has a directory with a module that requires the program, a main package, and a file
// "changes" with the changed expressions. The repository contains no other code of the program. The
// main package starts the tested part of the program. If the program only reads, the main package
// also reports the program's objects (see package report). The program is built twice from the
// module cache, unchanged and changed. Cluster API's own main package is built, because Cluster API
// sets up its manager there; the file added.go reports how the program uses the drop-in.
//
// The modules of most programs require client-go 0.37. Those of cilium and Istio require 0.36, as
// these programs do. Istio's releases have no module versions, so its version is a commit. Four
// programs need more changes of their requirements, or cannot be built whole:
//
//   - Of cilium, package operator/k8s cannot be built, because the required version of
//     sigs.k8s.io/mcs-api/controllers is not available. The main package creates such resources.
//   - The descheduler's own go.mod replaces k8s.io/kube-openapi, because the required version is
//     not available. The go.mod in the directory descheduler has the same replacement. With
//     client-go 0.37, the descheduler also needs k8s.io/component-helpers 0.37.
//   - The directory of external-dns replaces github.com/openshift/api, because the required version
//     is not available. Version 0.23 of external-dns needs Go 1.27.
//   - Traefik's go.mod replaces a module by one of its directories, which the module proxy does not
//     have. The directory traefik/ext has a module with the same two empty types.
//
// Knative serving 0.51 cannot be built: the module proxy does not have the versions of
// knative.dev/pkg, networking, caching and hack that it requires.
package programs
