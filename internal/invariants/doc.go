// Package invariants says whether checks of inner states are on: in tests of the packages that have
// them, but not in benchmarks or under the race detector, and everywhere with go test -tags
// invariants. A failed check panics with the state.
package invariants
