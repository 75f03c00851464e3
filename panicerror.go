package weir

import (
	"k8s.io/klog/v2"

	"github.com/weirproject/weir/internal/delivery"
)

// PanicError is a panic that a handler raised. Options.OnPanic is told of it.
type PanicError struct {
	Handler string // HandlerOptions.Name, or the name that the handler got
	Key     string // of the object whose event was being handled
	Value   any    // what was passed to panic
	Stack   []byte
}

// Error names the handler, the key and the value.
func (e *PanicError) Error() string { return (*delivery.PanicError)(e).Error() }

// Unwrap returns the value passed to panic if that is an error, else nil.
func (e *PanicError) Unwrap() error { return (*delivery.PanicError)(e).Unwrap() }

func logPanic(e *PanicError) {
	klog.Background().Error(e, "weir: a handler panicked", "handler", e.Handler, "key", e.Key, "stack", string(e.Stack))
}
