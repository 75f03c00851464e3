// Package testenv contains helpers for tests that depend on their environment. They provide
// in-memory connections, find programs, create client certificates, change shared objects,
// configure the garbage collector, select the tests for the race detector, and wait for a
// condition.
package testenv
