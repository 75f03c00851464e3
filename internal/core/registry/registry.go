// Package registry lists the running parts of this process, such as proxies, under unique names.
// Debug pages and metrics show them. Package engine lists running informers in the same way.
package registry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Registry contains the running values of one type. The zero value is empty and ready to use. Its
// methods do not block, and are safe for concurrent use. The caller of Add must remove its value
// when the value no longer runs.
type Registry[T any] struct {
	mu     sync.Mutex
	byName map[string]T
}

// Named is a running value with a name that is unique in its registry.
type Named[T any] struct {
	Name  string
	Value T
}

// Add adds a running value. Its name in the registry is name, with invalid UTF-8 replaced. If
// another value has that name, Add appends the lowest free number from 2 on, as in pods#2. remove
// removes the value and frees its name.
func (r *Registry[T]) Add(name string, value T) (remove func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byName == nil {
		r.byName = map[string]T{}
	}
	unique := r.unique(strings.ToValidUTF8(name, "\ufffd"))
	r.byName[unique] = value
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.byName, unique)
	})
}

// unique returns name, or name with the lowest number that makes it unique. The caller must hold
// r.mu.
func (r *Registry[T]) unique(name string) string {
	unique := name
	for n := 2; ; n++ {
		if _, taken := r.byName[unique]; !taken {
			return unique
		}
		unique = fmt.Sprintf("%s#%d", name, n)
	}
}

// All returns the running values, ordered by name.
func (r *Registry[T]) All() []Named[T] {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Named[T], 0, len(r.byName))
	for name, value := range r.byName {
		all = append(all, Named[T]{name, value})
	}
	slices.SortFunc(all, func(a, b Named[T]) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
