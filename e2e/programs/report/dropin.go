package report

import (
	"runtime"
	"strings"
)

// DropIn is what the drop-in does in a program.
type DropIn struct {
	Informers int `json:"informers"` // that run
	// Captured are the watches whose answers it reads itself. An informer that had to let its
	// client read a list lets it read its watches, too.
	Captured int `json:"captured"`
}

// dropIn looks at what the goroutines of this program are in, since nothing of the drop-in is in a
// program that is not changed.
func dropIn() (found DropIn) {
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
		if strings.Contains(stack, "weir/clientgo.(*informer).RunWithContext(") {
			found.Informers++
		}
		// What a client has read is made a stream of as well, but it is not read from a connection.
		_, reads, ok := strings.Cut(stack, "http")
		if ok && strings.Contains(reads, "weir/internal/core/source.(*stream).Read(") {
			found.Captured++
		}
	}
	return found
}
