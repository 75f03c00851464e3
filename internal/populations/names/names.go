// Package names has what populations are called, and links none of the types that they are made of.
package names

import (
	"fmt"
	"slices"
	"strings"
)

// The populations. Package podsim says what their pods are.
const (
	Alike  = "alike"  // pods with the same fields
	Unlike = "unlike" // pods of workloads that share neither shape nor text
	Mixed  = "mixed"  // unlike pods, among objects of the other kinds that a cluster has
	Random = "random" // pods that share nothing
)

// All returns the names of all populations, the usual one first.
func All() []string { return []string{Alike, Unlike, Mixed, Random} }

// Choices returns the names as a sentence has them.
func Choices() string { return strings.Join(All(), ", ") }

// Check returns an error that has the choices, unless a population is called so or the name is
// empty, which is the usual one.
func Check(name string) error {
	if name == "" || slices.Contains(All(), name) {
		return nil
	}
	return fmt.Errorf("no population is called %q: choose from %s", name, Choices())
}
