// Package private identifies function values, and reads private fields of other packages' structs.
//
// Only the packages private, codec and views import unsafe. With the build tag weir_safe, private
// does not import it; then all function values are different, and fields cannot be read.
package private
