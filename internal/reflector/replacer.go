package reflector

import "github.com/weirproject/weir/internal/store"

// Replacer does the steps of a relist in place of the writer, for an owner that wants a say in how a relist comes into the store: with
// Config.Take it sees everything that a reflector writes. Each method must come to the call of the writer that has its name, sooner
// or later. They are called by the reflector's own goroutine and may block it.
type Replacer interface {
	BeginReplace(w *store.Writer, rebase bool)
	EndReplace(w *store.Writer, resourceVersion string)
	AbortReplace(w *store.Writer)
}

// replacer is the owner's, or the writer itself.
func (c *Config) replacer() Replacer {
	if c.Replacer != nil {
		return c.Replacer
	}
	return plainReplacer{}
}

type plainReplacer struct{}

func (plainReplacer) BeginReplace(w *store.Writer, rebase bool) { w.BeginReplace(rebase) }
func (plainReplacer) EndReplace(w *store.Writer, rv string)     { w.EndReplace(rv) }
func (plainReplacer) AbortReplace(w *store.Writer)              { w.AbortReplace() }
