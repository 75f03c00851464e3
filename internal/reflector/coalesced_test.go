package reflector

import (
	"testing"
	"time"
)

// TestCoalesced: among coalesced changes nobody is told that the store is current to one of them.
func TestCoalesced(t *testing.T) {
	for name, tt := range map[string]struct {
		events []string
		at     string
	}{
		"before the end":       {[]string{"~a@101", "coalesced@101>105", "-b@101", "~c@104"}, "101"},
		"an older bookmark":    {[]string{"~a@101", "coalesced@101>105", "~c@104", "bookmark@104"}, "101"},
		"once more":            {[]string{"~a@101", "coalesced@101>105", "~c@104", "coalesced@104>110", "~a@105"}, "101"},
		"a bookmark ends them": {[]string{"~a@101", "coalesced@101>105", "~c@104", "bookmark@105"}, "105"},
		"a change ends them":   {[]string{"~a@101", "coalesced@101>105", "~c@104", "~a@106"}, "106"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, Config{Mode: List}, func(w *world) {
				w.run(w.list("100", "a@91", "b@92"), w.events(tt.events...))
				w.after(time.Second)
				w.fine(tt.at)
			})
		})
	}
}

// TestBrokenOffAmongCoalesced: what came before a watch broke off among coalesced changes is the
// state of no version, so a list follows.
func TestBrokenOffAmongCoalesced(t *testing.T) {
	inWorld(t, Config{Mode: List}, func(w *world) {
		w.run(w.list("100", "a@91", "b@92"), w.events("~a@101", "coalesced@101>105", "-b@101", "~c@104", "brokenLists"),
			w.list("107", "a@101", "b@106"), w.events("~a@108"))
		w.after(10 * time.Second)
		w.holds("a@108 b@106")
		w.sees("0s LIST", "0s WATCH resourceVersion=100", "600ms LIST", "600ms WATCH resourceVersion=107")
		w.fine("108")
	})
}

// TestListAmongCoalesced: the list after such a watch may be older than what that promised, where
// another replica answers. It ends what was coalesced all the same.
func TestListAmongCoalesced(t *testing.T) {
	inWorld(t, Config{Mode: WatchList}, func(w *world) {
		w.run(w.events("+a@91", "+b@92", "end@100", "~a@101", "coalesced@101>105", "-b@101", "~c@104", "brokenLists"),
			w.list("104"), w.events("+a@101", "+c@104", "end@104", "~a@108", "bookmark@110"))
		w.after(30 * time.Second)
		w.fine("110")
	})
}

// TestRunAmongCoalesced: who runs a reflector again does not go on from the middle either.
func TestRunAmongCoalesced(t *testing.T) {
	inWorld(t, Config{Mode: List}, func(w *world) {
		w.run(w.list("100", "a@91", "b@92"), w.events("~a@101", "coalesced@101>105", "-b@101", "~c@104"))
		w.after(time.Second)
		w.stop()
		w.sees("0s LIST", "0s WATCH resourceVersion=100")
		w.run(w.list("107/more", "a@101"), w.list("107", "a@101"), w.events())
		w.after(5 * time.Second)
		w.holds("a@101")
		w.fine("107")
	})
}
