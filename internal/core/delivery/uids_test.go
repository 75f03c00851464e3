package delivery

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/core/store"
)

// TestUIDs checks handlers that keep up and handlers that lag. A handler must receive each object
// that existed. It must receive no change from one object to another, unless UpdateNamesakes is
// set.
func TestUIDs(t *testing.T) {
	const keepingUp = `
ADDED d/a -→1 initial
MODIFIED d/a 1→2
DELETED d/a 2→- unknown
ADDED d/a -→3
DELETED d/a 3→- at 4
ADDED d/b -→5
DELETED d/b 5→- at 6
ADDED d/a -→7
MODIFIED d/a 7→8`
	const behind = `
ADDED d/a -→1 initial
DELETED d/a 1→- coalesced unknown
ADDED d/a -→3
DELETED d/a 3→- at 4
ADDED d/b -→5
DELETED d/b 5→- at 6
ADDED d/a -→8 coalesced`
	for _, tc := range []struct {
		name string
		opts Options
		cfg  store.Config
		want string
	}{
		{"keeping up", Options{}, store.Config{}, keepingUp},
		{"behind", Options{}, store.Config{LogBytes: 1}, behind},
		{"updates of namesakes, keeping up", Options{UpdateNamesakes: true}, store.Config{}, `
ADDED d/a -→1 initial
MODIFIED d/a 1→2
MODIFIED d/a 2→3
DELETED d/a 3→- at 4
ADDED d/b -→5
DELETED d/b 5→- at 6
ADDED d/a -→7
MODIFIED d/a 7→8`},
		{"updates of namesakes, behind", Options{UpdateNamesakes: true}, store.Config{LogBytes: 1}, behind},
		{"the filter refuses the first", Options{Filter: func(o *store.Object) bool { return o.UID() != "one" }}, store.Config{}, `
ADDED d/a -→3
DELETED d/a 3→- at 4
ADDED d/b -→5
DELETED d/b 5→- at 6
ADDED d/a -→7
MODIFIED d/a 7→8`},
		{"the filter refuses the second", Options{Filter: func(o *store.Object) bool { return o.UID() == "one" }}, store.Config{}, `
ADDED d/a -→1 initial
MODIFIED d/a 1→2
DELETED d/a 2→- unknown`},
		{"the filter refuses a version", Options{Filter: func(o *store.Object) bool { return o.ResourceVersion() != "2" }}, store.Config{}, `
ADDED d/a -→1 initial
DELETED d/a 1→- at 2 refused
ADDED d/a -→3
DELETED d/a 3→- at 4
ADDED d/b -→5
DELETED d/b 5→- at 6
ADDED d/a -→7
MODIFIED d/a 7→8`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, tc.cfg, func(t *testing.T, w *testStore) {
				var log []string
				release := make(chan struct{})
				r := New(w.store, func(_ context.Context, e store.Change) {
					log = append(log, line(e))
					<-release
				}, tc.opts)
				w.run(r)
				w.uid = "one"
				w.sync("a")
				synctest.Wait()
				w.putWithUID("a", "one")
				w.putWithUID("a", "two") // the deletion of the first was missed
				w.del("a")
				w.putWithUID("b", "three")
				w.del("b")
				w.putWithUID("a", "four")
				w.putWithUID("a", "four")
				close(release)
				synctest.Wait()
				expect(t, log, tc.want)
			})
		})
	}
}

// TestNamesakeAfterRemoval checks that a handler that is removed while it handles a deletion
// receives no event of the new object with the same name.
func TestNamesakeAfterRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestStore(t, store.Config{})
		var log []string
		var r *Registration
		r = New(w.store, func(_ context.Context, e store.Change) {
			if log = append(log, line(e)); e.Type() == store.Deleted {
				r.Close()
			}
		}, Options{})
		go r.Run(t.Context())
		w.uid = "one"
		w.sync("a")
		synctest.Wait()
		w.putWithUID("a", "two")
		synctest.Wait()
		<-r.Done()
		expect(t, log, `
ADDED d/a -→1 initial
DELETED d/a 1→- unknown`)
	})
}

var histories = flag.Int("histories", 300, "how many random histories TestUIDsOfHistories plays")

// TestUIDsOfHistories plays random histories to handlers that block for random times. Even if a
// handler misses many changes, it must receive the addition of each object once, and then events of
// that object until its deletion. Its last state must be correct. It must receive no change from
// one object to another.
func TestUIDsOfHistories(t *testing.T) {
	for seed := range uint64(*histories) {
		synctest.Test(t, func(t *testing.T) { playHistory(t, seed) })
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}

// life is the history of one object.
type life struct {
	key    string
	last   string // resourceVersion
	ended  string // resourceVersion of the DELETED event, "" if there was none
	isGone bool
}

func playHistory(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	w := newTestStore(t, store.Config{LogBytes: int64([]int{1, 600, 1 << 20}[rnd.IntN(3)])})
	lives := map[string]*life{}
	held := map[string]string{} // uid by name
	end := func(name, at string) {
		if uid, ok := held[name]; ok {
			lives[uid].ended, lives[uid].isGone = at, true
			delete(held, name)
		}
	}
	step := func() {
		name := string(rune('a' + rnd.IntN(4)))
		uid, there := held[name]
		switch rnd.IntN(4) {
		case 0: // another object, with or without a deletion of the first
			end(name, "")
			uid = "u" + strconv.Itoa(len(lives))
			held[name], lives[uid] = uid, &life{key: "d/" + name}
			fallthrough
		case 1:
			if uid != "" {
				w.putWithUID(name, uid)
				lives[uid].last = strconv.Itoa(w.rv)
			}
		case 2:
			if there {
				w.del(name)
				end(name, strconv.Itoa(w.rv))
			}
		case 3:
			time.Sleep(time.Duration(rnd.IntN(30)) * time.Millisecond)
		}
	}
	w.sync()
	var watched []*uidWatcher
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 1 + rnd.IntN(3) {
		for range rnd.IntN(10) {
			step()
		}
		h := &uidWatcher{seen: map[string]*life{}, current: map[string]string{}, before: map[string]bool{}, pause: time.Duration(rnd.IntN(3)*rnd.IntN(20)) * time.Millisecond}
		for uid, l := range lives {
			h.before[uid] = l.isGone
		}
		h.r = New(w.store, h.handle, Options{})
		go h.r.Run(ctx)
		watched = append(watched, h)
	}
	for range 60 {
		step()
	}
	time.Sleep(time.Hour)
	synctest.Wait()
	cancel()
	for n, h := range watched {
		<-h.r.Done()
		for _, wrong := range append(h.wrong, h.compare(lives)...) {
			t.Errorf("handler %d: %s", n, wrong)
		}
	}
}

// uidWatcher is a handler that records the events of each uid.
type uidWatcher struct {
	r       *Registration
	pause   time.Duration
	seen    map[string]*life
	current map[string]string // uid by key
	before  map[string]bool   // uids that were deleted before the handler started
	wrong   []string
}

func (h *uidWatcher) handle(_ context.Context, e store.Change) {
	time.Sleep(h.pause)
	complain := func(format string, args ...any) {
		h.wrong = append(h.wrong, line(e)+": "+fmt.Sprintf(format, args...))
	}
	uid := e.Object().UID()
	l := h.seen[uid]
	switch {
	case e.Old != nil && e.New != nil && e.Old.UID() != uid:
		complain("from uid %s to %s", e.Old.UID(), uid)
	case e.Type() == store.Added && l != nil:
		complain("the second beginning of %s", uid)
	case e.Type() == store.Added && h.current[e.Key()] != "":
		complain("of %s, while it has %s", uid, h.current[e.Key()])
	case e.Type() != store.Added && (l == nil || h.current[e.Key()] != uid):
		complain("of %s, while it has %q", uid, h.current[e.Key()])
	}
	if l == nil {
		l = &life{key: e.Key()}
		h.seen[uid] = l
	}
	l.last, h.current[e.Key()] = e.Object().ResourceVersion(), uid
	if e.Type() == store.Deleted {
		delete(h.current, e.Key())
		l.isGone = true
		if !e.FinalStateUnknown() {
			l.ended = strconv.FormatUint(e.ResourceVersion, 10)
		}
	}
}

// compare returns the differences between the recorded events and the actual histories.
func (h *uidWatcher) compare(lives map[string]*life) (wrong []string) {
	for uid, was := range lives {
		l := h.seen[uid]
		switch {
		case l == nil && h.before[uid]:
		case l == nil:
			wrong = append(wrong, uid+" never came")
		case l.isGone != was.isGone:
			wrong = append(wrong, fmt.Sprintf("%s is gone: %v, and it was told %v", uid, was.isGone, l.isGone))
		case l.ended != "" && (l.ended != was.ended || l.last != was.last):
			wrong = append(wrong, fmt.Sprintf("%s ended at %q as of %s, and it was told at %s, as of %s", uid, was.ended, was.last, l.ended, l.last))
		case !was.isGone && l.last != was.last:
			wrong = append(wrong, fmt.Sprintf("%s is at %s, and it has %s", uid, was.last, l.last))
		}
	}
	return wrong
}
