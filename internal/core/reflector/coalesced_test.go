package reflector

import (
	"testing"
	"time"
)

// TestCoalesced: the store is not reported as current to a version among coalesced changes.
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
			withHarness(t, Config{Mode: List}, func(h *harness) {
				h.run(h.list("100", "a@91", "b@92"), h.events(tt.events...))
				h.advance(time.Second)
				h.wantCurrent(tt.at)
			})
		})
	}
}

// TestBrokenOffAmongCoalesced: what came before a watch broke off among coalesced changes is the
// state of no version, so a list follows.
func TestBrokenOffAmongCoalesced(t *testing.T) {
	withHarness(t, Config{Mode: List}, func(h *harness) {
		h.run(h.list("100", "a@91", "b@92"), h.events("~a@101", "coalesced@101>105", "-b@101", "~c@104", "broken"),
			h.list("107", "a@101", "b@106"), h.events("~a@108"))
		h.advance(10 * time.Second)
		h.wantObjects("a@108 b@106")
		h.wantRequests("0s LIST", "0s WATCH resourceVersion=100", "0s LIST", "0s WATCH resourceVersion=107")
		h.wantCurrent("108")
	})
}

// TestListAmongCoalesced: the list after such a watch may be older than what that promised, where
// another replica answers. It ends what was coalesced all the same.
func TestListAmongCoalesced(t *testing.T) {
	withHarness(t, Config{Mode: WatchList}, func(h *harness) {
		h.run(h.events("+a@91", "+b@92", "end@100", "~a@101", "coalesced@101>105", "-b@101", "~c@104", "broken"),
			h.list("104"), h.events("+a@101", "+c@104", "end@104", "~a@108", "bookmark@110"))
		h.advance(30 * time.Second)
		h.wantCurrent("110")
	})
}

// TestRunAmongCoalesced: who runs a reflector again does not go on from the middle either.
func TestRunAmongCoalesced(t *testing.T) {
	withHarness(t, Config{Mode: List}, func(h *harness) {
		h.run(h.list("100", "a@91", "b@92"), h.events("~a@101", "coalesced@101>105", "-b@101", "~c@104"))
		h.advance(time.Second)
		h.stop()
		h.wantRequests("0s LIST", "0s WATCH resourceVersion=100")
		h.run(h.list("107/more", "a@101"), h.list("107", "a@101"), h.events())
		h.advance(5 * time.Second)
		h.wantObjects("a@101")
		h.wantCurrent("107")
	})
}
