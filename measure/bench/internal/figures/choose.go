package figures

import (
	"fmt"
	"slices"
	"strings"
)

// Choose returns the things whose name is in names, in the order of all, which stays as it is; all
// of them if no name is given. A name that none of them has is an error, which calls them noun.
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
