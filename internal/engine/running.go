package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// live are the engines of this process that run, by a name that no other of them has. An engine
// is among them from the beginning of its Run to the end.
var live = struct {
	mu     sync.Mutex
	byName map[string]*Engine
}{byName: map[string]*Engine{}}

// Named is an engine that runs.
type Named struct {
	// Name is Config.Name in valid UTF-8, with a number from 2 on where others of that name ran when
	// this one began.
	Name   string
	Engine *Engine
}

// Running returns the engines of this process that run, ordered by name. It does not block, and is
// safe for concurrent use.
func Running() []Named {
	live.mu.Lock()
	defer live.mu.Unlock()
	all := make([]Named, 0, len(live.byName))
	for name, e := range live.byName {
		all = append(all, Named{name, e})
	}
	slices.SortFunc(all, func(a, b Named) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// announce adds e to those that run. The function that it returns removes it.
func announce(e *Engine) (leave func()) {
	live.mu.Lock()
	defer live.mu.Unlock()
	plain := strings.ToValidUTF8(e.cfg.Name, "\ufffd")
	name := plain
	for n := 2; live.byName[name] != nil; n++ {
		name = fmt.Sprintf("%s#%d", plain, n)
	}
	live.byName[name] = e
	return func() {
		live.mu.Lock()
		defer live.mu.Unlock()
		delete(live.byName, name)
	}
}
