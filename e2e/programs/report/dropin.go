package report

import (
	"runtime"
	"strings"
)

// DropIn describes how a program uses Weir's drop-in for client-go.
type DropIn struct {
	Informers int `json:"informers"` // running informers and Reflectors
	// Captured is the number of watches that the informers read themselves. client-go's client reads
	// the other watches. If it has read an informer's list, it also reads the informer's watch.
	Captured int `json:"captured"`
}

// FindDropIn finds the drop-in's informers and Reflectors in the stacks of this program's
// goroutines. It cannot call the drop-in's package, because the unchanged program does not link it.
func FindDropIn() DropIn {
	stacks := make([]byte, 1<<20)
	for {
		n := runtime.Stack(stacks, true)
		if n < len(stacks) {
			return dropInOf(string(stacks[:n]))
		}
		stacks = make([]byte, 2*len(stacks))
	}
}

func dropInOf(stacks string) (found DropIn) {
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		for _, running := range []string{"weir/clientgo.(*informer).RunWithContext(", "weir/clientgo.(*Reflector).listAndWatch("} {
			if strings.Contains(stack, running) {
				found.Informers++
			}
		}
		// The drop-in's stream also occurs in the stacks if client-go reads the response, but then the
		// stream does not read from an HTTP connection.
		_, reads, ok := strings.Cut(stack, "http")
		if ok && strings.Contains(reads, "weir/internal/core/source.(*stream).Read(") {
			found.Captured++
		}
	}
	return found
}
