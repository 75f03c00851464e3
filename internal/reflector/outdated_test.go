package reflector

import (
	"testing"
	"time"

	"github.com/weirproject/weir/internal/store"
)

// beside makes another reflector of the same store, with a server of its own view.
func (w *world) beside(claim uint8, cfg Config) *world {
	other := &world{t: w.t, enc: w.enc, server: hold, store: w.store, scope: store.Scope{Claim: claim}}
	other.serve(cfg)
	return other
}

// TestOutdated has the server restored to 60 and go on. One of two reflectors of a store finds out,
// since its connection breaks. The other has a watch that stays open and silent, of a version that
// the server has come to again: nothing tells it that b is gone.
func TestOutdated(t *testing.T) {
	for _, mode := range []Mode{List, WatchList} {
		t.Run(mode.String(), func(t *testing.T) {
			inWorld(t, Config{Mode: List}, func(w *world) {
				other := w.beside(1, Config{Mode: mode})
				if mode == List {
					other.run(other.list("100", "b@92", "c@50"), other.events(), other.list("110", "c@50", "d@105"), other.events("~d@111"))
				} else {
					other.run(other.events("+b@92", "+c@50", "end@100"), other.list("110/more", "c@50"), other.events("+c@50", "+d@105", "end@110", "~d@111"))
				}
				defer other.stop()
				w.run(w.list("100", "a@91"), w.events("brokenLists"), w.events(),
					w.list("60/more", "a@40"), ahead(), w.list("60/more", "a@40"), ahead(), w.list("60/more", "a@40"),
					w.list("60", "a@40"), w.events("bookmark@112"))
				w.after(10 * time.Second)
				w.holds("a@40 c@50 d@111")
				if mode == List {
					other.sees("0s LIST", "0s WATCH resourceVersion=100", "2.8s LIST", "2.8s WATCH resourceVersion=110")
				}
				other.told(ErrWentBack)
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
	inWorld(t, Config{Mode: List}, func(w *world) {
		w.run(w.list("100", "b@92", "c@50"), deny(500, ""), w.list("110", "c@50"), w.events())
		other := w.store.Writer(store.Scope{Claim: 1})
		other.BeginReplace(true)
		other.EndReplace("60")
		w.after(10 * time.Second)
		w.sees("0s LIST", "0s WATCH resourceVersion=100", "1.2s LIST", "1.2s WATCH resourceVersion=110")
		w.holds("c@50")
	})
}
