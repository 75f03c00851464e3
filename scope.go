package weir

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// maxSelectors is the largest number of selectors. A store supports this number of owners.
const maxSelectors = 32

// scope is what one reflector lists and watches: a namespace and a selector.
type scope struct {
	namespace string
	selector  Selector
	// owner is the selector's index in Options.Selectors. The store keeps an object while at least one
	// owner lists it.
	owner uint8
}

// String returns the selectors as text, for errors and statuses.
func (s scope) String() string {
	return strings.TrimSpace(s.selector.Label + " " + s.selector.Field)
}

// scopesOf returns a scope for each pair of a namespace and a selector. It returns
// ErrInvalidOptions if the options are invalid.
func scopesOf(opts Options) ([]scope, error) {
	namespaces, selectors := opts.Namespaces, opts.Selectors
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	if len(selectors) == 0 {
		selectors = []Selector{{}}
	}
	if len(selectors) > maxSelectors {
		return nil, fmt.Errorf("%w: %d selectors, at most %d", ErrInvalidOptions, len(selectors), maxSelectors)
	}
	if len(namespaces) > 1 && slices.Contains(namespaces, "") {
		return nil, fmt.Errorf("%w: Namespaces has both all namespaces (\"\") and single ones", ErrInvalidOptions)
	}
	for n, ns := range namespaces {
		if slices.Contains(namespaces[:n], ns) {
			return nil, fmt.Errorf("%w: namespace %q appears twice", ErrInvalidOptions, ns)
		}
	}
	if err := opts.Shard.Validate(); err != nil {
		return nil, err
	}
	var scopes []scope
	for owner, sel := range selectors {
		if _, err := labels.Parse(sel.Label); err != nil {
			return nil, fmt.Errorf("%w: label selector %q: %w", ErrInvalidOptions, sel.Label, err)
		}
		if _, err := fields.ParseSelector(sel.Field); err != nil {
			return nil, fmt.Errorf("%w: field selector %q: %w", ErrInvalidOptions, sel.Field, err)
		}
		for _, ns := range namespaces {
			scopes = append(scopes, scope{namespace: ns, selector: sel, owner: uint8(owner)})
		}
	}
	return scopes, nil
}
