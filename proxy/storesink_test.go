package proxy

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/watchcache"
	"github.com/weirproject/weir/internal/wire"
)

// bench is a storeSink without a reflector.
type bench struct {
	*storeSink
	t       *testing.T
	events  atomic.Uint64
	initial atomic.Uint64
	why     error
	full    error
}

func newBench(t *testing.T, logBytes int64) *bench {
	t.Helper()
	st := store.New(store.Config{Encoding: wire.JSON, KeepLog: true, LogBytes: logBytes})
	t.Cleanup(st.Close)
	b := &bench{t: t}
	b.storeSink = &storeSink{
		Writer: st.Writer(store.Scope{}), store: st, enc: wire.JSON, history: watchcache.NewHistory(0, 0, 0), events: &b.events, initialObjects: &b.initial,
		onListed: func() {}, endSession: func(err error) { b.why = err }, reserve: func(int) error { return b.full },
	}
	b.BeginReplace(false)
	if err := errors.Join(b.put(0, "a", 1, 0), b.put(0, "b", 2, 0)); err != nil {
		t.Fatal(err)
	}
	b.EndReplace("5")
	return b
}

// put gives an object of some size.
func (b *bench) put(t wire.EventType, name string, rv, size int) error {
	b.t.Helper()
	return b.putAs(t, name, "u-"+name, rv, size)
}

func (b *bench) putAs(t wire.EventType, name, uid string, rv, size int) error {
	b.t.Helper()
	raw := fmt.Appendf(nil, `{"metadata":{"name":%q,"uid":%q,"resourceVersion":"%d"},"data":%q}`, name, uid, rv, strings.Repeat("x", size))
	var m wire.Meta
	if err := wire.ReadMeta(wire.JSON, raw, &m); err != nil {
		b.t.Fatal(err)
	}
	return b.Take(t, &m, raw, nil)
}

// now returns the resourceVersion that the clock tells.
func (b *bench) now() (rv uint64) {
	b.Observe(func(v uint64) { rv = v })
	return rv
}

func TestStoreSink(t *testing.T) {
	b := newBench(t, 0)
	if b.now() != 5 || b.store.Len() != 2 {
		t.Fatalf("at %d with %d objects", b.now(), b.store.Len())
	}
	before, err := b.store.CursorAt(b.store.Revision())
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	if err := errors.Join(b.put(wire.Modified, "a", 7, 0), b.put(wire.Deleted, "b", 8, 0)); err != nil {
		t.Fatal(err)
	}
	if b.now() != 8 || b.store.Len() != 1 || b.storeSink.events.Load() != 2 {
		t.Errorf("at %d with %d objects, after %d events", b.now(), b.store.Len(), b.storeSink.events.Load())
	}
	// A relist shows nothing before it is whole.
	b.BeginReplace(false)
	for rv, name := range map[int]string{12: "a", 11: "z", 10: "c"} {
		if err := b.put(0, name, rv, 0); err != nil {
			t.Fatal(err)
		}
	}
	b.Flush()
	if b.now() != 8 || b.store.Len() != 1 {
		t.Errorf("in the middle of a relist: at %d with %d objects", b.now(), b.store.Len())
	}
	b.EndReplace("12")
	var got []uint64
	changes := make([]store.Change, 16)
	for n := before.Next(changes); n > 0; n = before.Next(changes) {
		for _, c := range changes[:n] {
			got = append(got, c.ResourceVersion)
		}
	}
	if fmt.Sprint(got) != "[7 8 10 11 12]" || b.now() != 12 {
		t.Errorf("changes %v, at %d", got, b.now())
	}
	// One that breaks off leaves what there was.
	b.BeginReplace(false)
	if err := b.put(0, "new", 13, 0); err != nil {
		t.Fatal(err)
	}
	b.AbortReplace()
	if b.store.Len() != 3 || b.relistedBytes.Load() != 0 || b.why != nil {
		t.Errorf("%d objects, %d bytes, %v", b.store.Len(), b.relistedBytes.Load(), b.why)
	}
}

// TestStoreSinkRelist: what a relist finds to be gone comes first and what it finds changed in its
// order, so that whoever breaks off and goes on elsewhere misses nothing; nobody goes on here from
// a state in between.
func TestStoreSinkRelist(t *testing.T) {
	b := newBench(t, 0)
	if err := errors.Join(b.put(wire.Added, "gone", 6, 0), b.put(wire.Added, "new", 7, 0), b.put(wire.Added, "same", 8, 0)); err != nil {
		t.Fatal(err)
	}
	from, err := b.store.CursorAt(b.store.Revision())
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	b.BeginReplace(false)
	again := []byte(`{"metadata":{"name":"new","uid":"another","resourceVersion":"15"}}`)
	var m wire.Meta
	if err := errors.Join(wire.ReadMeta(wire.JSON, again, &m), b.Take(0, &m, again, nil)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.put(0, "a", 20, 1), b.put(0, "b", 12, 0), b.put(0, "same", 8, 0), b.put(0, "z", 11, 0)); err != nil {
		t.Fatal(err)
	}
	b.EndReplace("30")
	var got []string
	changes := make([]store.Change, 16)
	for n := from.Next(changes); n > 0; n = from.Next(changes) {
		for _, c := range changes[:n] {
			text := fmt.Sprintf("-%s", c.Key())
			if c.New != nil {
				text = fmt.Sprintf("%s@%d", c.Key(), c.ResourceVersion)
			} else if !c.Missed {
				t.Errorf("the end of %s counts as told", c.Key())
			}
			got = append(got, text)
		}
	}
	if want := "[-gone -new z@11 b@12 new@15 a@20]"; fmt.Sprint(got) != want || b.now() != 30 {
		t.Errorf("changes %v, not %v, at %d", got, want, b.now())
	}
	cache, err := watchcache.New(watchcache.Config{Store: b.store, Encoding: wire.JSON, Clock: b.storeSink, History: b.history})
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	for rv, want := range map[string]bool{"8": true, "9": false, "11": false, "20": false, "29": false, "30": true, "31": true} {
		if cache.CanResumeFrom(rv) != want {
			t.Errorf("from %s: %t", rv, !want)
		}
	}
	if err := b.put(wire.Modified, "a", 31, 0); err != nil {
		t.Fatal(err)
	}
	if !cache.CanResumeFrom("31") || cache.CanResumeFrom("29") {
		t.Error("the next change mends what was torn, or is torn itself")
	}
}

// TestStoreSinkWait: whoever waits for a resourceVersion finds the history up to it.
func TestStoreSinkWait(t *testing.T) {
	b := newBench(t, 0)
	b.mu.Lock() // as while a change is applied
	waited := make(chan error, 1)
	go func() { waited <- b.Wait(t.Context(), 5) }()
	select {
	case <-waited:
		t.Error("it did not wait for the history")
		b.mu.Unlock()
		return
	case <-time.After(50 * time.Millisecond): // so long only where it is right
	}
	b.mu.Unlock()
	if err := <-waited; err != nil {
		t.Error(err)
	}
}

// TestStoreSinkEndsSession: too much news, or an upstream that went back in time, is for a new
// store.
func TestStoreSinkEndsSession(t *testing.T) {
	for from, want := range map[int]error{
		10: errRelistTooLarge,
		3:  errWentBack, // there was no such object then, and the end of the list will not be seen
	} {
		b := newBench(t, 0)
		b.BeginReplace(false)
		var err error
		for i := 0; err == nil && i < 40; i++ {
			err = b.put(0, fmt.Sprintf("n%d", i), from+i, 1<<20)
		}
		if !errors.Is(err, want) || !errors.Is(b.why, want) || b.store.Len() != 2 {
			t.Errorf("%v, %v, %d objects", err, b.why, b.store.Len())
		}
	}
	b := newBench(t, 0)
	b.BeginReplace(true)
	if !errors.Is(b.why, errWentBack) {
		t.Error(b.why)
	}
}

// TestStoreSinkOfAnotherPast: an upstream that went back, and has come to the resourceVersions of
// before again by the time that it is listed, tells of objects that cannot have been there. A list
// that is older than the cache proves nothing, nor does one that is whole.
func TestStoreSinkOfAnotherPast(t *testing.T) {
	for _, c := range []struct {
		name, object, uid string
		rv                int
		end               string
		want              error
	}{
		{"an older version", "a", "u-a", 6, "12", errWentBack},
		{"another object of the key", "a", "u-z", 7, "12", errWentBack},
		{"an object that was gone", "b", "u-b", 2, "12", errWentBack},
		{"no newer than before", "b", "u-b", 2, "10", errWentBack},
		{"a version that was missed", "a", "u-a", 9, "12", errWentBack},
		{"the version that is cached", "a", "u-a", 8, "12", nil},
		{"a newer version", "a", "u-a", 11, "12", nil},
		{"an old list", "a", "u-a", 6, "7", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, 0)
			if err := errors.Join(b.put(wire.Modified, "a", 8, 0), b.put(wire.Deleted, "b", 10, 0)); err != nil {
				t.Fatal(err)
			}
			b.BeginReplace(false)
			if err := b.putAs(0, c.object, c.uid, c.rv, 0); err != nil {
				t.Fatal(err)
			}
			if b.why != nil {
				t.Error("it gave up before the list was through:", b.why)
			}
			b.EndReplace(c.end)
			if !errors.Is(b.why, c.want) {
				t.Errorf("%v, not %v", b.why, c.want)
			}
		})
	}
}

// TestStoreSinkFull: what does not fit is not stored, from a list or from a watch.
func TestStoreSinkFull(t *testing.T) {
	b := newBench(t, 0)
	b.full = errOverBudget
	for _, kind := range []wire.EventType{0, wire.Added} {
		if err := b.put(kind, "c", 9, 0); !errors.Is(err, errOverBudget) || b.Flush() != 0 || b.store.Len() != 2 {
			t.Errorf("%v: %v, %d objects", kind, err, b.store.Len())
		}
	}
}
