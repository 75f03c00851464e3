// Package funcvalue tells function values apart, which Go does not compare.
package funcvalue

import "unsafe"

// Pointer returns what tells a function value from others: a func is a pointer to what it captured
// and its code. One declared function has one, and so has one closure. Two closures of one text
// have two, and so have two method values. That of a nil func is nil. As long as the function, or
// the pointer, is held, nothing else has that address. F must be a func type.
func Pointer[F any](f F) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&f)) }
