// Package checks supports checks that are too expensive for production. With it, some packages
// check the invariants of their internal state. These checks run in the tests of these packages,
// except in benchmarks and under the race detector. With the build tag invariants, they run in
// every program. If an invariant is violated, the check panics with a description of the state.
// Another check, [MutationDetector], detects changes of shared objects; it runs if
// KUBE_CACHE_MUTATION_DETECTOR enables it.
package checks
