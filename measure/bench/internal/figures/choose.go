package figures

import (
	"fmt"
	"slices"
	"strings"
)

// Choose returns the elements with the given names, in the order of the slice all. Without names,
// it returns all elements. It does not modify the slice. If no element has one of the names, it
// returns an error. The error uses noun, such as "row", as the name for an element.
func Choose[T any](noun string, all []T, name func(T) string, names ...string) ([]T, error) {
	var there []string
	for _, thing := range all {
		there = append(there, name(thing))
	}
	for _, n := range names {
		if !slices.Contains(there, n) {
			return nil, fmt.Errorf("no %s %q: there are %s", noun, n, strings.Join(there, ", "))
		}
	}
	if len(names) == 0 {
		return all, nil
	}
	return slices.DeleteFunc(slices.Clone(all), func(thing T) bool { return !slices.Contains(names, name(thing)) }), nil
}
