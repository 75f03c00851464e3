// Package checks has checks that cost too much for programs. Checks of internal states are on in
// tests of the packages that have them, but not in benchmarks or under the race detector, and
// everywhere with go test -tags invariants. A failed one panics with the state. The check for
// changes of shared objects is on where KUBE_CACHE_MUTATION_DETECTOR asks for it.
package checks
