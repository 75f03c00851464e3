//go:build weir_safe

package views

// Bytes returns a copy of s as bytes.
func Bytes(s string) []byte { return []byte(s) }

// String returns a copy of b as a string.
func String(b []byte) string { return string(b) }

// Same reports whether two strings are equal. This build cannot compare their memory.
func Same(a, b string) bool { return a == b }

// WeakValue is a weak pointer in other builds. Without unsafe there is none, because weak.Make
// needs a type that is known at compile time.
type WeakValue struct{}

// MakeWeakValue returns false.
func MakeWeakValue(any) (WeakValue, bool) { return WeakValue{}, false }

// Value returns nil.
func (WeakValue) Value() any { return nil }

// Alive returns false.
func (WeakValue) Alive() bool { return false }
