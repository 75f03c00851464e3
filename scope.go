package weir

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weirproject/weir/internal/core/shard"
)

// maxSelectors is the number of owners that a store can distinguish.
const maxSelectors = 32

// scope is the namespace, selector and shard that one reflector lists and watches.
type scope struct {
	namespace string
	selector  Selector
	shard     *shard.Selector // nil: all objects
	// owner is the selector's position. An object that two selectors match is stored for both.
	owner uint8
}

// String returns the selector for error texts.
func (s scope) String() string {
	return strings.TrimSpace(s.selector.Label + " " + s.selector.Field)
}

// scopesOf returns a scope for each namespace with each selector. The error wraps ErrInvalidOptions
// if the options are invalid.
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
			scopes = append(scopes, scope{namespace: ns, selector: sel, shard: opts.Shard.selector(), owner: uint8(owner)})
		}
	}
	return scopes, nil
}
