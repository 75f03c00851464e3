// Package testenv contains helpers for tests that depend on their environment. They provide
// in-memory connections, find programs, create client certificates, change shared objects, set the
// garbage collector and the race detector, and wait for a condition.
package testenv
