package podsim

import (
	"fmt"
	"slices"
	"strings"
)

// The names of the populations. Package populations creates their objects.
const (
	Alike  = "alike"  // pods with the same fields
	Unlike = "unlike" // pods of workloads that share neither shape nor text
	Mixed  = "mixed"  // unlike pods, among objects of a cluster's other kinds
	Random = "random" // pods that share nothing
)

// Populations returns the names of all populations, the usual one first.
func Populations() []string { return []string{Alike, Unlike, Mixed, Random} }

// PopulationChoices returns the names, separated by commas.
func PopulationChoices() string { return strings.Join(Populations(), ", ") }

// CheckPopulation returns an error with the choices unless name is a population or empty, which
// means the default.
func CheckPopulation(name string) error {
	if name == "" || slices.Contains(Populations(), name) {
		return nil
	}
	return fmt.Errorf("no population is called %q: choose from %s", name, PopulationChoices())
}
