// Package registry keeps what runs in this process, each thing under a name of its own, for the
// pages and metrics that show it.
package registry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Registry has the things of one type that run. The zero value is empty and ready to use. Its
// methods do not block, and are safe for concurrent use. It is as large as what runs: whoever adds
// something removes it when that ends.
type Registry[T any] struct {
	mu     sync.Mutex
	byName map[string]T
}

// Named is something that runs, by a name that nothing else of its registry has.
type Named[T any] struct {
	Name  string
	Value T
}

// Add adds something that runs. Its name is name in valid UTF-8, with a number from 2 on, as in
// pods#2, where others have the name. remove removes it, and gives its name free.
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

// unique returns name, with the lowest number behind it that makes it another one than those that
// are there. The caller holds the lock.
func (r *Registry[T]) unique(name string) string {
	unique := name
	for n := 2; ; n++ {
		if _, taken := r.byName[unique]; !taken {
			return unique
		}
		unique = fmt.Sprintf("%s#%d", name, n)
	}
}

// All returns what runs, ordered by name.
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
