// Package views converts between strings and bytes without copying, reports whether two strings
// share their memory, and provides weak pointers to decoded values. It avoids a copy of each
// unpacked object, and lets callers share values that are still in use.
//
// Three packages import unsafe: views, codec and private. With the build tag weir_safe, views does
// not: it copies strings and bytes, and there are no weak pointers to decoded values.
package views
