package podsim

import (
	"fmt"
	"slices"
	"strings"
)

// These are the names of the populations. Package populations creates their objects.
const (
	Alike  = "alike"  // pods with the same fields
	Unlike = "unlike" // pods of workloads that share neither fields nor text
	Mixed  = "mixed"  // unlike pods and the objects of other kinds
	Random = "random" // pods that share nothing
)

// Populations returns the names of all populations. The default population is the first.
func Populations() []string { return []string{Alike, Unlike, Mixed, Random} }

// PopulationChoices returns the names of all populations, separated by commas.
func PopulationChoices() string { return strings.Join(Populations(), ", ") }

// CheckPopulation returns nil if name is the name of a population or empty, which means the
// default. Otherwise it returns an error that lists the names.
func CheckPopulation(name string) error {
	if name == "" || slices.Contains(Populations(), name) {
		return nil
	}
	return fmt.Errorf("no population is called %q: choose from %s", name, PopulationChoices())
}
