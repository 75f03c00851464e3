package reflector

import (
	"testing"
	"time"

	"github.com/weirproject/weir/internal/core/store"
)

// beside makes another reflector of the same store, with a server of its own view.
func (h *harness) beside(owner uint8, cfg Config) *harness {
	other := &harness{t: h.t, enc: h.enc, server: hold, store: h.store, scope: store.Scope{Owner: owner}}
	other.serve(cfg)
	return other
}

// TestOutdated has the server restored to 60 and go on. One of two reflectors of a store finds out,
// since its connection breaks. The other has a watch that stays open and silent, of a version that
// the server has come to again: nothing tells it that b is gone.
func TestOutdated(t *testing.T) {
	for _, mode := range []Mode{List, WatchList} {
		t.Run(mode.String(), func(t *testing.T) {
			withHarness(t, Config{Mode: List}, func(h *harness) {
				other := h.beside(1, Config{Mode: mode})
				if mode == List {
					other.run(other.list("100", "b@92", "c@50"), other.events(), other.list("110", "c@50", "d@105"), other.events("~d@111"))
				} else {
					other.run(other.events("+b@92", "+c@50", "end@100"), other.list("110/more", "c@50"), other.events("+c@50", "+d@105", "end@110", "~d@111"))
				}
				defer other.stop()
				h.run(h.list("100", "a@91"), h.events("broken"), h.events(),
					h.list("60/more", "a@40"), tooLarge(), h.list("60/more", "a@40"), tooLarge(), h.list("60/more", "a@40"),
					h.list("60", "a@40"), h.events("bookmark@112"))
				h.advance(10 * time.Second)
				h.wantObjects("a@40 c@50 d@111")
				if mode == List {
					other.wantRequests("0s LIST", "0s WATCH resourceVersion=100", "2.8s LIST", "2.8s WATCH resourceVersion=110")
				}
				other.wantReported(ErrWentBack)
				if s := other.r.Status(); s.Err != nil || s.Relists != 1 || s.ResourceVersion != "111" {
					t.Errorf("%s", s)
				}
			})
		})
	}
}

// TestOutdatedWhileWaiting has the server's way back found by another reflector while the next
// watch waits: a list comes in its place.
func TestOutdatedWhileWaiting(t *testing.T) {
	withHarness(t, Config{Mode: List}, func(h *harness) {
		h.run(h.list("100", "b@92", "c@50"), deny(500, ""), h.list("110", "c@50"), h.events())
		other := h.store.Writer(store.Scope{Owner: 1})
		other.BeginReplace(true)
		other.EndReplace("60")
		h.advance(10 * time.Second)
		h.wantRequests("0s LIST", "0s WATCH resourceVersion=100", "1.2s LIST", "1.2s WATCH resourceVersion=110")
		h.wantObjects("c@50")
	})
}
