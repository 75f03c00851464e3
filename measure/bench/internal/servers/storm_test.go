package servers

import "testing"

// TestResyncBeforeTheStormBegins: what a resync hands out before all is measured is not asked for,
// and does not count as a part of the storm.
func TestResyncBeforeTheStormBegins(t *testing.T) {
	r := &resyncing{begun: make(chan struct{}), groups: make(chan string, 1), ended: make(chan struct{})}
	r.handle(t.Context(), "early")
	if n := len(r.groups); n != 0 {
		t.Errorf("%d groups are handed out before it begins", n)
	}
	close(r.begun)
	r.handle(t.Context(), "in time")
	if n := len(r.groups); n != 1 {
		t.Errorf("%d groups are handed out behind that", n)
	}
}
