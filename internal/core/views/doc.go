// Package views converts between strings and bytes without copying, reports whether two strings
// share their memory, and provides weak pointers to decoded values. The conversions avoid a copy of
// each unpacked object. The weak pointers let callers share a decoded value while one of them uses
// it.
//
// Only the packages views, codec and private import unsafe. With the build tag weir_safe, views
// does not import it: it copies strings and bytes, and has no weak pointers.
package views
