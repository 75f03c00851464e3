//go:build race

package checks

// Race reports whether the race detector is on, with which checks take minutes.
const Race = true
