package checks

import "runtime/debug"

// Fail ends the program with a panic. text describes the violated invariant. The panic is on a new
// goroutine: a panic on the caller's would run the caller's deferred calls, which may wait forever
// for a lock that the caller holds. Fail does not return.
func Fail(text string) {
	text += "\n" + string(debug.Stack())
	go panic(text)
	select {}
}
