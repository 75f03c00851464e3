// Package checks provides checks that are too expensive for production. Checks of internal states
// run in the tests of the packages that have such checks, but not in benchmarks or under the race
// detector. With go test -tags invariants, they run everywhere. If such a check fails, it panics
// with a description of the state. The check for changes of shared objects runs if
// KUBE_CACHE_MUTATION_DETECTOR enables it.
package checks
