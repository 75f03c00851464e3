// Package names has the names of the populations, without the types of their objects.
package names

import (
	"fmt"
	"slices"
	"strings"
)

// The populations. Package podsim describes their pods.
const (
	Alike  = "alike"  // pods with the same fields
	Unlike = "unlike" // pods of workloads that share neither shape nor text
	Mixed  = "mixed"  // unlike pods, among objects of a cluster's other kinds
	Random = "random" // pods that share nothing
)

// All returns the names of all populations, the usual one first.
func All() []string { return []string{Alike, Unlike, Mixed, Random} }

// Choices returns the names, separated by commas.
func Choices() string { return strings.Join(All(), ", ") }

// Check returns an error with the choices unless name is a population or empty, which means the
// default.
func Check(name string) error {
	if name == "" || slices.Contains(All(), name) {
		return nil
	}
	return fmt.Errorf("no population is called %q: choose from %s", name, Choices())
}
