package podsim

import (
	"fmt"
	"slices"
	"strings"
)

// Names of the populations, whose objects package populations creates.
const (
	Alike  = "alike"  // pods with the same fields
	Unlike = "unlike" // pods of workloads with different text and different sets of fields
	Mixed  = "mixed"  // unlike pods and the objects of other kinds
	Random = "random" // pods that share hardly any text
)

// Populations returns the names of all populations. The default population is the first.
func Populations() []string { return []string{Alike, Unlike, Mixed, Random} }

// PopulationChoices returns the names of all populations as text, separated by commas.
func PopulationChoices() string { return strings.Join(Populations(), ", ") }

// CheckPopulation returns an error that lists all names if name is not the name of a population.
// The empty name means the default population, and is no error.
func CheckPopulation(name string) error {
	if name == "" || slices.Contains(Populations(), name) {
		return nil
	}
	return fmt.Errorf("no population is called %q: choose from %s", name, PopulationChoices())
}
