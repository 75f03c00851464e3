//go:build weir_safe

package views

// Bytes returns a copy of the bytes of a string.
func Bytes(s string) []byte { return []byte(s) }

// String returns a copy of bytes as a string.
func String(b []byte) string { return string(b) }

// Same reports whether two strings are equal.
func Same(a, b string) bool { return a == b }

// WeakString has the string itself. The zero value has none.
type WeakString struct{ s string }

// MakeWeakString returns a WeakString with a string.
func MakeWeakString(s string) WeakString { return WeakString{s} }

// Value returns the string. It reports false for the zero value.
func (w WeakString) Value() (string, bool) { return w.s, w.s != "" }

// WeakValue points to nothing: weak.Make needs a variable's type when the program is compiled.
type WeakValue struct{}

// MakeWeakValue reports false.
func MakeWeakValue(any) (WeakValue, bool) { return WeakValue{}, false }

// Value returns nil.
func (WeakValue) Value() any { return nil }

// Alive returns false.
func (WeakValue) Alive() bool { return false }
