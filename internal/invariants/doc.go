// Package invariants says whether the checks of inner states are on. They are with
// the build tag of the same name: go test -tags invariants ./... A check that fails
// panics with the state that it found.
package invariants
