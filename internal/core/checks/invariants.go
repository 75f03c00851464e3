package checks

import "runtime/debug"

// Fail ends the program with a panic. text describes the violated invariant. The panic is in a new
// goroutine. In the caller's goroutine, a panic would run the caller's deferred calls, which may
// wait forever for a lock that the caller holds. Fail does not return.
func Fail(text string) {
	text += "\n" + string(debug.Stack())
	go panic(text)
	select {}
}
