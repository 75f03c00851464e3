// Package private identifies function values, and reads and sets private fields of other packages'
// structs.
//
// Only the packages private, codec and views import unsafe. With the build tag weir_safe, private
// does not import unsafe. Then all function values count as different, and private fields cannot be
// read or set.
package private
