package reflector

import (
	"maps"
	"testing"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// notOthers returns true for all objects except those with the annotation "other".
func notOthers(m *wire.Meta) bool {
	text, _ := m.Annotation("text")
	return string(text) != "other"
}

// TestKeep checks that only wanted objects of lists, pages, events and initial events are stored,
// and that watches also resume at the versions of unwanted objects.
func TestKeep(t *testing.T) {
	withHarness(t, Config{Mode: List, Keep: notOthers}, func(h *harness) {
		h.run(h.list("10", "a@1", "b@2=other", "c@3"),
			h.events("+d@11=other", "~c@12", "-b@13=other", "~d@14=other", "EOF"), h.events("+e@15"))
		h.wantRequests("0s LIST", "0s WATCH resourceVersion=10", "0s WATCH resourceVersion=14")
		h.wantObjects("a@1 c@12 e@15")
		h.wantCurrent("15")
		if s := h.r.Status(); s.Unwanted != 4 || s.Listed != 3 || s.Skipped != 0 {
			t.Errorf("%s", s)
		}
	})
	withHarness(t, Config{Mode: WatchList, Keep: notOthers}, func(h *harness) {
		h.run(h.events("+a@1", "+b@2=other", "end@10", "~b@11=other"))
		h.wantObjects("a@1")
		h.wantCurrent("11")
	})
	withHarness(t, Config{Mode: Pages, PageSize: 2, Keep: notOthers}, func(h *harness) {
		h.run(h.list("10/next", "a@1=other", "b@2=other"), h.list("10", "c@3"), h.events())
		h.wantObjects("c@3")
		h.wantCurrent("10")
	})
}

// TestKeepNamesakes checks that the store has the right object if a new object has the name of a
// deleted one. In some cases only the old object is wanted, and in others only the new one. The new
// object may be in an event or in a list after a 410. Late events of the old object must have no
// effect.
func TestKeepNamesakes(t *testing.T) {
	withHarness(t, Config{Mode: List, Keep: notOthers}, func(h *harness) {
		h.run(h.list("10", "a@1", "b@2", "c@3", "d@4=other", "e@5"),
			h.events("-a@11", "+a@12=other", "~b@13=other", "+e@2=other", "-e@3=other", "error@410"),
			h.list("20", "c@14=other", "d@15", "e@5"), h.events("-c@21=other", "+c@22"))
		h.wantObjects("c@22 d@15 e@5")
		h.wantCurrent("22")
	})
	withHarness(t, Config{Mode: List, Keep: notOthers}, func(h *harness) {
		h.run(h.list("10", "a@1", "b@2", "c@3"), h.events("~b@13=other", "+c@14=other", "-c@15=other", "+c@16"))
		h.wantObjects("a@1 c@16")
	})
}

// TestKeepMissed checks a stored object when an unwanted object of the same name arrives in a list,
// in initial events or in an event. The store must report the deletion of the stored object as
// missed, unless its DELETED event was received.
func TestKeepMissed(t *testing.T) {
	for _, mode := range []Mode{List, WatchList} {
		withHarness(t, Config{Mode: mode, Keep: notOthers}, func(h *harness) {
			cursor := h.store.Cursor()
			defer cursor.Close()
			if mode == List {
				h.run(h.list("10", "a@1", "b@2", "c@3"), h.events("-b@11", "error@410"), h.list("20", "a@12=other", "c@3"), h.events("~c@21=other"))
			} else {
				// The next request is a probe; initial events follow.
				h.run(h.events("+a@1", "+b@2", "+c@3", "end@10", "-b@11", "error@410"), h.list("20", "c@3"),
					h.events("+a@12=other", "+c@3", "end@20", "~c@21=other"))
			}
			h.wantObjects("")
			missed := map[string]bool{}
			var changes [16]store.Change
			for _, ch := range changes[:cursor.Next(changes[:])] {
				if ch.New == nil {
					missed[ch.Key()] = ch.Missed
				}
			}
			if want := map[string]bool{"n/a": true, "n/b": false, "n/c": true}; !maps.Equal(missed, want) {
				t.Errorf("%v: what was deleted, and whether that was missed: %v, want %v", mode, missed, want)
			}
		})
	}
}
