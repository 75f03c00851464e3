package source

import "unsafe"

// FuncPointer returns a pointer that identifies a function value: a func is a pointer to its
// captured variables and code. One declared function has one, and so has one closure. Two closures
// with the same source have two, and so have two method values. It is nil for a nil func. While the
// function, or the pointer, is in memory, nothing else has that address. F must be a func type.
func FuncPointer[F any](f F) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&f)) }
