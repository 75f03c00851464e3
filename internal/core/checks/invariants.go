package checks

import "runtime/debug"

// Fail ends the program with a panic that names the violated rule. It panics on a new goroutine:
// its caller holds locks, for which its deferred calls would wait for ever. Fail does not return.
func Fail(text string) {
	text += "\n" + string(debug.Stack())
	go panic(text)
	select {}
}
