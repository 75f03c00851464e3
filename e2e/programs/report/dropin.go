package report

import (
	"runtime"
	"strings"
)

// DropIn describes how a program uses the drop-in.
type DropIn struct {
	Informers int `json:"informers"` // running informers
	// Captured is the number of watches whose responses the informers read themselves. An informer
	// whose client had to read a list lets the client read its watches, too.
	Captured int `json:"captured"`
}

// dropIn finds the drop-in's informers in the stacks of this program's goroutines. It cannot call
// the drop-in, because an unchanged program does not contain it.
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
		// If a client reads the response, the drop-in reads a stream too, but this stream is not read
		// from an HTTP connection.
		_, reads, ok := strings.Cut(stack, "http")
		if ok && strings.Contains(reads, "weir/internal/core/source.(*stream).Read(") {
			found.Captured++
		}
	}
	return found
}
