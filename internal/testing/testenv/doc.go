// Package testenv gives tests what they need around them: connections in memory, programs of the
// system, a certificate authority, callers that change shared objects, the garbage collector's
// pace, and time until a condition holds.
package testenv
