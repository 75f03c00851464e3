package invariants

import "runtime/debug"

// Fail ends the program with a panic that says which rule is broken. It panics on a goroutine of
// its own: its caller holds locks, for which its deferred calls would wait for ever. Fail does not
// return.
func Fail(text string) {
	text += "\n" + string(debug.Stack())
	go panic(text)
	select {}
}
