//go:build !invariants

package checks

// Invariants reports whether the build tag invariants is set.
const Invariants = false
