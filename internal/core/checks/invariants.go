package checks

import "runtime/debug"

// Fail ends the program with a panic. text names the violated rule. Fail panics on a new goroutine,
// because the caller may hold locks, for which the caller's deferred calls would wait forever. Fail
// does not return.
func Fail(text string) {
	text += "\n" + string(debug.Stack())
	go panic(text)
	select {}
}
