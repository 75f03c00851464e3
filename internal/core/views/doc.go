// Package views reads strings as bytes and bytes as strings without copying them, tells whether two
// strings have the same memory, and points weakly to strings and decoded values. It saves a copy of
// each object that is unpacked, and memory for values that callers still use.
//
// It is one of the three packages that import unsafe; the others are codec and private. With the
// build tag weir_safe it imports none: strings and bytes are copied, weak pointers to strings are
// strong, and decoded values have no weak pointer.
package views
