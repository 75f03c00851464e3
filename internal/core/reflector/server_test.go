package reflector

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/testing/check"
)

// apart creates another reflector that has the same Server but its own store.
func (h *harness) apart(cfg Config) *harness {
	other := &harness{t: h.t, enc: h.enc, server: hold, store: store.New(store.Config{Encoding: h.enc})}
	h.t.Cleanup(other.store.Close)
	other.serve(cfg)
	return other
}

// restored returns the responses of a server that was restored to version 60, for a reflector that
// is current to 100. The last response is to the LIST before the next WATCH.
func (h *harness) restored() []http.HandlerFunc {
	return []http.HandlerFunc{
		h.list("60/more", "a@40"), tooLarge(), h.list("60/more", "a@40"), tooLarge(), h.list("60/more", "a@40"), h.list("60", "a@40"),
	}
}

// TestServerWentBack checks that each reflector of a server lists once when one of them finds that
// the server was restored. The other reflectors watch from versions that the server has reached a
// second time, so their watches remain open and silent.
func TestServerWentBack(t *testing.T) {
	for _, mode := range []Mode{List, WatchList} {
		t.Run(mode.String(), func(t *testing.T) {
			server := &Server{}
			withHarness(t, Config{Mode: List, Server: server}, func(h *harness) {
				var others []*harness
				for range 4 {
					other := h.apart(Config{Mode: mode, Server: server})
					if mode == List {
						other.run(other.list("100", "b@92", "c@50"), other.events(), other.list("110", "c@50"), other.events("~d@111"))
					} else {
						other.run(other.events("+b@92", "+c@50", "end@100"), other.list("110/more", "c@50"), other.events("+c@50", "end@110", "~d@111"))
					}
					defer other.stop()
					others = append(others, other)
				}
				script := append([]http.HandlerFunc{h.list("100", "a@91"), h.events("broken"), h.events()}, h.restored()...)
				h.run(append(script, h.events("bookmark@112"))...)
				h.advance(20 * time.Second)
				h.wantObjects("a@40")
				for _, other := range others {
					other.wantObjects("c@50 d@111")
					if mode == List {
						// The wait is 0.6 s, as after any failure, plus half of the 0.2 s over which four lists are
						// distributed.
						other.wantRequests("0s LIST", "0s WATCH resourceVersion=100", "2.9s LIST", "2.9s WATCH resourceVersion=110")
					}
					other.wantReported(ErrWentBack)
					if s := other.r.Status(); s.Err != nil || s.Relists != 1 || s.ResourceVersion != "111" {
						t.Errorf("%s", s)
					}
				}
			})
			if len(server.watching) > 0 {
				t.Errorf("%d reflectors have not left", len(server.watching))
			}
		})
	}
}

// TestServerWentBackForAll checks that no reflector lists twice if every reflector detects the
// restore itself, at different times.
func TestServerWentBackForAll(t *testing.T) {
	server := &Server{}
	withHarness(t, Config{Mode: List, Server: server}, func(h *harness) {
		before := server.found()
		all := []*harness{h}
		for range 3 {
			all = append(all, h.apart(Config{Mode: List, Server: server}))
		}
		for i, other := range all {
			script := []http.HandlerFunc{other.list("100", "a@91"), other.events("broken"), other.events()}
			if i == 3 { // this reflector is notified while it waits, and its server is still behind
				script = []http.HandlerFunc{other.list("100", "a@91"), other.events()}
				script = append(script, other.list("60", "a@40"), tooLarge(), other.list("61/more", "a@40"), tooLarge(), other.list("61/more", "a@40"), other.list("61", "a@40"))
			} else {
				script = append(script, other.restored()...)
			}
			other.run(append(script, other.events("bookmark@62"))...)
			defer other.stop()
		}
		h.advance(30 * time.Second)
		for _, other := range all {
			other.wantObjects("a@40")
			other.wantReported(ErrWentBack)
			if s := other.r.Status(); s.Err != nil || s.Relists != 1 || s.ResourceVersion != "62" {
				t.Errorf("%s, after %s", s, other.asked())
			}
		}
		check.Equal(t, server.found()-before, 1, "the server went back once, and was found to times")
	})
}

// TestServerWentBackBefore checks a reflector that starts after the restore, and one that lists
// while another reflector finds the restore. The first must not list again. The second must list
// again, because its list may be older than the restore.
func TestServerWentBackBefore(t *testing.T) {
	server := &Server{}
	withHarness(t, Config{Mode: List, Server: server}, func(h *harness) {
		h.run(h.list("100", "a@91"), h.events())
		slow := h.apart(Config{Mode: List, Server: server})
		slow.run(func(rw http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			slow.list("100", "a@91")(rw, r)
		}, slow.list("101", "a@91"), slow.events())
		defer slow.stop()
		server.wentBack(server.found())
		late := h.apart(Config{Mode: List, Server: server})
		late.run(late.list("60", "a@40"), late.events())
		defer late.stop()
		h.advance(10 * time.Second)
		late.wantRequests("0s LIST", "0s WATCH resourceVersion=60")
		slow.wantRequests("0s LIST", "1.6s LIST", "1.6s WATCH resourceVersion=101")
		if s := h.r.Status(); s.Relists > 1 {
			t.Errorf("%s", s)
		}
	})
}

// TestConcurrentRestores lets reflectors start, stop and find restores at the same time, so that
// the race detector can find races. The remaining reflectors must be current afterwards.
func TestConcurrentRestores(t *testing.T) {
	server := &Server{}
	withHarness(t, Config{Mode: List, Server: server}, func(h *harness) {
		var lists atomic.Int64
		answers := func(other *harness) http.HandlerFunc {
			return func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Has("watch") {
					other.events()(rw, r)
					return
				}
				lists.Add(1)
				other.list("100", "a@91")(rw, r)
			}
		}
		var others []*harness
		for range 20 {
			other := h.apart(Config{Mode: List, Server: server})
			other.server = answers(other)
			others = append(others, other)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 50 {
				server.wentBack(server.found())
				time.Sleep(time.Millisecond)
			}
		}()
		for i, other := range others {
			other.run()
			if i%3 == 0 {
				other.stop()
			}
		}
		<-done
		h.advance(10 * time.Second)
		for i, other := range others {
			if s := other.r.Status(); i%3 > 0 && (s.Phase != Watching || !s.Synced || s.Err != nil) {
				t.Errorf("%d: %s", i, s)
			}
			other.stop()
		}
		if n := lists.Load(); n > 20*52 {
			t.Errorf("%d lists", n)
		}
	})
}

// TestServerOfOtherScheme checks a server whose versions are not integers. No reflector can detect
// that the server went back, so none may notify the others.
func TestServerOfOtherScheme(t *testing.T) {
	server := &Server{}
	withHarness(t, Config{Mode: List, Server: server}, func(h *harness) {
		h.run(h.list("v-a", "a@x"), h.events("error@410"), h.list("v-b", "a@y"), h.events())
		h.advance(10 * time.Second)
		h.wantObjects("a@y")
		if n := server.found(); n > 0 {
			t.Errorf("the server went back %d times", n)
		}
	})
}

// TestNoServer checks that the methods of a nil Server are no-ops.
func TestNoServer(t *testing.T) {
	var server *Server
	server.join(nil, 0)
	server.leave(nil)
	check.Equal(t, server.wentBack(server.found()), 0, "restores")
}
