//go:build race

package invariants

// Race reports whether the race detector is on, with which checks take minutes.
const Race = true
