// Package private identifies function values, and reads private fields of other packages' structs.
//
// Three packages import unsafe: private, codec and views. With the build tag weir_safe, private
// does not: then no two function values are equal, and no field can be read.
package private
