// Package testenv has helpers for the environment of tests: in-memory connections, a search for
// programs, a certificate authority, a function that changes shared objects, settings of the
// garbage collector and the race detector, and functions that wait for a condition.
package testenv
