// Package private reads what Go keeps private: which function a function value is, and the private
// fields of other packages' structs.
//
// It is one of the three packages that import unsafe; the others are codec and views. With the
// build tag weir_safe it imports none: no two function values are equal, and no field can be read.
package private
