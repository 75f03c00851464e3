package registry

import (
	"maps"
	"sync"
)

var unadopted struct {
	mu     sync.Mutex
	counts map[string]int
}

// AddUnadopted counts an informer of client-go that the drop-in returned unchanged, because it does
// not know a field of the informer.
func AddUnadopted(field string) {
	unadopted.mu.Lock()
	defer unadopted.mu.Unlock()
	if unadopted.counts == nil {
		unadopted.counts = map[string]int{}
	}
	unadopted.counts[field]++
}

// Unadopted returns the number of these informers since the start of the process, by field.
func Unadopted() map[string]int {
	unadopted.mu.Lock()
	defer unadopted.mu.Unlock()
	return maps.Clone(unadopted.counts)
}
