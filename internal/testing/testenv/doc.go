// Package testenv gives tests what they need around them: the garbage collector's pace, programs of
// the system, a certificate authority, and time until a condition holds.
package testenv
