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

// testSink is a storeSink without a reflector.
type testSink struct {
	*storeSink
	t       *testing.T
	events  atomic.Uint64
	initial atomic.Uint64
	ended   error
	refusal error
}

func newTestSink(t *testing.T, logBytes int64) *testSink {
	t.Helper()
	st := store.New(store.Config{Encoding: wire.JSON, KeepLog: true, LogBytes: logBytes})
	t.Cleanup(st.Close)
	ts := &testSink{t: t}
	ts.storeSink = &storeSink{
		Writer: st.Writer(store.Scope{}), store: st, enc: wire.JSON, history: watchcache.NewHistory(0, 0, 0), events: &ts.events, initialObjects: &ts.initial,
		onListed: func() {}, endSession: func(err error) { ts.ended = err }, reserve: func(int) error { return ts.refusal },
	}
	ts.BeginReplace(false)
	if err := errors.Join(ts.put(0, "a", 1, 0), ts.put(0, "b", 2, 0)); err != nil {
		t.Fatal(err)
	}
	ts.EndReplace("5")
	return ts
}

// put gives an object of some size.
func (ts *testSink) put(t wire.EventType, name string, rv, size int) error {
	ts.t.Helper()
	return ts.putAs(t, name, "u-"+name, rv, size)
}

func (ts *testSink) putAs(t wire.EventType, name, uid string, rv, size int) error {
	ts.t.Helper()
	raw := fmt.Appendf(nil, `{"metadata":{"name":%q,"uid":%q,"resourceVersion":"%d"},"data":%q}`, name, uid, rv, strings.Repeat("x", size))
	var m wire.Meta
	if err := wire.ReadMeta(wire.JSON, raw, &m); err != nil {
		ts.t.Fatal(err)
	}
	return ts.Take(t, &m, raw, nil)
}

// now returns the resourceVersion that the clock tells.
func (ts *testSink) now() (rv uint64) {
	ts.Observe(func(v uint64) { rv = v })
	return rv
}

func TestStoreSink(t *testing.T) {
	ts := newTestSink(t, 0)
	if ts.now() != 5 || ts.store.Len() != 2 {
		t.Fatalf("at %d with %d objects", ts.now(), ts.store.Len())
	}
	before, err := ts.store.CursorAt(ts.store.Revision())
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	if err := errors.Join(ts.put(wire.Modified, "a", 7, 0), ts.put(wire.Deleted, "b", 8, 0)); err != nil {
		t.Fatal(err)
	}
	if ts.now() != 8 || ts.store.Len() != 1 || ts.storeSink.events.Load() != 2 {
		t.Errorf("at %d with %d objects, after %d events", ts.now(), ts.store.Len(), ts.storeSink.events.Load())
	}
	// A relist shows nothing before it is whole.
	ts.BeginReplace(false)
	for rv, name := range map[int]string{12: "a", 11: "z", 10: "c"} {
		if err := ts.put(0, name, rv, 0); err != nil {
			t.Fatal(err)
		}
	}
	ts.Flush()
	if ts.now() != 8 || ts.store.Len() != 1 {
		t.Errorf("in the middle of a relist: at %d with %d objects", ts.now(), ts.store.Len())
	}
	ts.EndReplace("12")
	var got []uint64
	changes := make([]store.Change, 16)
	for n := before.Next(changes); n > 0; n = before.Next(changes) {
		for _, c := range changes[:n] {
			got = append(got, c.ResourceVersion)
		}
	}
	if fmt.Sprint(got) != "[7 8 10 11 12]" || ts.now() != 12 {
		t.Errorf("changes %v, at %d", got, ts.now())
	}
	// One that breaks off leaves what there was.
	ts.BeginReplace(false)
	if err := ts.put(0, "new", 13, 0); err != nil {
		t.Fatal(err)
	}
	ts.AbortReplace()
	if ts.store.Len() != 3 || ts.relistedBytes.Load() != 0 || ts.ended != nil {
		t.Errorf("%d objects, %d bytes, %v", ts.store.Len(), ts.relistedBytes.Load(), ts.ended)
	}
}

// TestStoreSinkRelist: what a relist finds to be gone comes first and what it finds changed in its
// order, so that whoever breaks off and goes on elsewhere misses nothing; nobody goes on here from
// a state in between.
func TestStoreSinkRelist(t *testing.T) {
	ts := newTestSink(t, 0)
	if err := errors.Join(ts.put(wire.Added, "gone", 6, 0), ts.put(wire.Added, "new", 7, 0), ts.put(wire.Added, "same", 8, 0)); err != nil {
		t.Fatal(err)
	}
	from, err := ts.store.CursorAt(ts.store.Revision())
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	ts.BeginReplace(false)
	again := []byte(`{"metadata":{"name":"new","uid":"another","resourceVersion":"15"}}`)
	var m wire.Meta
	if err := errors.Join(wire.ReadMeta(wire.JSON, again, &m), ts.Take(0, &m, again, nil)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(ts.put(0, "a", 20, 1), ts.put(0, "b", 12, 0), ts.put(0, "same", 8, 0), ts.put(0, "z", 11, 0)); err != nil {
		t.Fatal(err)
	}
	ts.EndReplace("30")
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
	if want := "[-gone -new z@11 b@12 new@15 a@20]"; fmt.Sprint(got) != want || ts.now() != 30 {
		t.Errorf("changes %v, not %v, at %d", got, want, ts.now())
	}
	cache, err := watchcache.New(watchcache.Config{Store: ts.store, Encoding: wire.JSON, Clock: ts.storeSink, History: ts.history})
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	for rv, want := range map[string]bool{"8": true, "9": false, "11": false, "20": false, "29": false, "30": true, "31": true} {
		if cache.CanResumeFrom(rv) != want {
			t.Errorf("from %s: %t", rv, !want)
		}
	}
	if err := ts.put(wire.Modified, "a", 31, 0); err != nil {
		t.Fatal(err)
	}
	if !cache.CanResumeFrom("31") || cache.CanResumeFrom("29") {
		t.Error("the next change mends what was torn, or is torn itself")
	}
}

// TestStoreSinkWait: whoever waits for a resourceVersion finds the history up to it.
func TestStoreSinkWait(t *testing.T) {
	ts := newTestSink(t, 0)
	ts.mu.Lock() // as while a change is applied
	waited := make(chan error, 1)
	go func() { waited <- ts.Wait(t.Context(), 5) }()
	select {
	case <-waited:
		t.Error("it did not wait for the history")
		ts.mu.Unlock()
		return
	case <-time.After(50 * time.Millisecond): // so long only where it is right
	}
	ts.mu.Unlock()
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
		ts := newTestSink(t, 0)
		ts.BeginReplace(false)
		var err error
		for i := 0; err == nil && i < 40; i++ {
			err = ts.put(0, fmt.Sprintf("n%d", i), from+i, 1<<20)
		}
		if !errors.Is(err, want) || !errors.Is(ts.ended, want) || ts.store.Len() != 2 {
			t.Errorf("%v, %v, %d objects", err, ts.ended, ts.store.Len())
		}
	}
	ts := newTestSink(t, 0)
	ts.BeginReplace(true)
	if !errors.Is(ts.ended, errWentBack) {
		t.Error(ts.ended)
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
			ts := newTestSink(t, 0)
			if err := errors.Join(ts.put(wire.Modified, "a", 8, 0), ts.put(wire.Deleted, "b", 10, 0)); err != nil {
				t.Fatal(err)
			}
			ts.BeginReplace(false)
			if err := ts.putAs(0, c.object, c.uid, c.rv, 0); err != nil {
				t.Fatal(err)
			}
			if ts.ended != nil {
				t.Error("it gave up before the list was through:", ts.ended)
			}
			ts.EndReplace(c.end)
			if !errors.Is(ts.ended, c.want) {
				t.Errorf("%v, not %v", ts.ended, c.want)
			}
		})
	}
}

// TestStoreSinkFull: what does not fit is not stored, from a list or from a watch.
func TestStoreSinkFull(t *testing.T) {
	ts := newTestSink(t, 0)
	ts.refusal = errOverBudget
	for _, eventType := range []wire.EventType{0, wire.Added} {
		if err := ts.put(eventType, "c", 9, 0); !errors.Is(err, errOverBudget) || ts.Flush() != 0 || ts.store.Len() != 2 {
			t.Errorf("%v: %v, %d objects", eventType, err, ts.store.Len())
		}
	}
}
