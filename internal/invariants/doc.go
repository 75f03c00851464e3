// Package invariants says whether the checks of inner states are on. They are with the build tag of
// the same name: go test -tags invariants ./... The tests of the packages that have such checks
// turn them on by themselves, but for benchmarks and under the race detector. A check that fails
// panics with the state that it found.
package invariants
