// Package humanize formats what people read: amounts, short and in a suitable unit, and the
// differences between two versions of an object, path by path.
package humanize
