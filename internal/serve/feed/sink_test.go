package feed

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/serve/watchcache"
	"github.com/weirproject/weir/internal/testing/check"
)

// testFeed is a feed to whose sink a test writes instead of the reflector.
type testFeed struct {
	*Feed
	*sink
	t       *testing.T
	stats   Stats
	ended   error // error that OnRefuse received
	refusal error // error that Reserve returns
}

// newTestFeed returns a feed at resourceVersion 5, with objects a and b.
func newTestFeed(t *testing.T, logBytes int64) *testFeed {
	t.Helper()
	ts := &testFeed{Feed: &Feed{}, t: t}
	err := ts.build(Config{
		Encoding: wire.JSON, LogBytes: logBytes, Stats: &ts.stats,
		Cache:    watchcache.Config{Resource: watchcache.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "things"}, Kind: "Thing"}},
		OnRefuse: func(err error) { ts.ended = err }, Reserve: func(int) error { return ts.refusal },
	}, nil, nil)
	check.NoError(t, err)
	t.Cleanup(ts.Close)
	ts.sink = ts.Feed.sink
	ts.BeginReplace(false)
	check.NoError(t, errors.Join(ts.put(0, "a", 1, 0), ts.put(0, "b", 2, 0)))
	ts.EndReplace("5")
	return ts
}

// proving returns the prover of the feed with the given sources. It behaves as if the feed watched
// its upstream.
func (ts *testFeed) proving(sources ...source.Source) *prover {
	ts.prover.sources, ts.prover.status = sources, func() reflector.Status { return reflector.Status{Phase: reflector.Watching} }
	return ts.prover
}

// put passes an event with an object to the sink. size is the length of the object's data.
func (ts *testFeed) put(t wire.EventType, name string, rv, size int) error {
	ts.t.Helper()
	return ts.putAs(t, name, "u-"+name, rv, size)
}

func (ts *testFeed) putAs(t wire.EventType, name, uid string, rv, size int) error {
	ts.t.Helper()
	raw := fmt.Appendf(nil, `{"metadata":{"name":%q,"uid":%q,"resourceVersion":"%d"},"data":%q}`, name, uid, rv, strings.Repeat("x", size))
	var m wire.Meta
	check.NoError(ts.t, wire.ReadMeta(wire.JSON, raw, &m))
	return ts.Take(t, &m, raw, nil)
}

// now returns the resourceVersion that the clock reports.
func (ts *testFeed) now() (rv uint64) {
	ts.Observe(func(v uint64) { rv = v })
	return rv
}

func TestSink(t *testing.T) {
	ts := newTestFeed(t, 0)
	if ts.now() != 5 || ts.sink.store.Len() != 2 {
		t.Fatalf("at %d with %d objects", ts.now(), ts.sink.store.Len())
	}
	before, err := ts.sink.store.CursorAt(ts.sink.store.Revision())
	check.NoError(t, err)
	defer before.Close()
	check.NoError(t, errors.Join(ts.put(wire.Modified, "a", 7, 0), ts.put(wire.Deleted, "b", 8, 0)))
	if ts.now() != 8 || ts.sink.store.Len() != 1 || ts.stats.Events.Load() != 2 {
		t.Errorf("at %d with %d objects, after %d events", ts.now(), ts.sink.store.Len(), ts.stats.Events.Load())
	}
	// A relist changes no visible state before it is complete.
	ts.BeginReplace(false)
	for rv, name := range map[int]string{12: "a", 11: "z", 10: "c"} {
		check.NoError(t, ts.put(0, name, rv, 0))
	}
	ts.Flush()
	if ts.now() != 8 || ts.sink.store.Len() != 1 {
		t.Errorf("in the middle of a relist: at %d with %d objects", ts.now(), ts.sink.store.Len())
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
	// A relist that fails leaves the objects as they were.
	ts.BeginReplace(false)
	check.NoError(t, ts.put(0, "new", 13, 0))
	ts.AbortReplace()
	if ts.sink.store.Len() != 3 || ts.relistedBytes.Load() != 0 || ts.ended != nil {
		t.Errorf("%d objects, %d bytes, %v", ts.sink.store.Len(), ts.relistedBytes.Load(), ts.ended)
	}
}

// TestSinkRelist checks that the deletions that a relist finds come first, and then the changes in
// their order. A client whose watch ends between two of these changes misses nothing if it resumes
// at another replica. At this cache, no client can resume from a state between them.
func TestSinkRelist(t *testing.T) {
	ts := newTestFeed(t, 0)
	check.NoError(t, errors.Join(ts.put(wire.Added, "gone", 6, 0), ts.put(wire.Added, "new", 7, 0), ts.put(wire.Added, "same", 8, 0)))
	from, err := ts.sink.store.CursorAt(ts.sink.store.Revision())
	check.NoError(t, err)
	defer from.Close()
	ts.BeginReplace(false)
	again := []byte(`{"metadata":{"name":"new","uid":"another","resourceVersion":"15"}}`)
	var m wire.Meta
	check.NoError(t, errors.Join(wire.ReadMeta(wire.JSON, again, &m), ts.Take(0, &m, again, nil)))
	check.NoError(t, errors.Join(ts.put(0, "a", 20, 1), ts.put(0, "b", 12, 0), ts.put(0, "same", 8, 0), ts.put(0, "z", 11, 0)))
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
	for rv, want := range map[string]bool{"8": true, "9": false, "11": false, "20": false, "29": false, "30": true, "31": true} {
		if ts.cache.CanResumeFrom(rv) != want {
			t.Errorf("from %s: %t", rv, !want)
		}
	}
	check.NoError(t, ts.put(wire.Modified, "a", 31, 0))
	if !ts.cache.CanResumeFrom("31") || ts.cache.CanResumeFrom("29") {
		t.Error("the next change mends what was torn, or is torn itself")
	}
}

// TestSinkWait checks that the history is current when Wait returns.
func TestSinkWait(t *testing.T) {
	ts := newTestFeed(t, 0)
	ts.mu.Lock() // simulates a change that is being applied
	waited := make(chan error, 1)
	go func() { waited <- ts.Wait(t.Context(), 5) }()
	select {
	case <-waited:
		t.Error("it did not wait for the history")
		ts.mu.Unlock()
		return
	case <-time.After(50 * time.Millisecond): // the usual case: Wait still blocks
	}
	ts.mu.Unlock()
	if err := <-waited; err != nil {
		t.Error(err)
	}
}

// TestSinkEndsFeed checks that the feed ends after a relist that is too large, or when the upstream
// went back in time.
func TestSinkEndsFeed(t *testing.T) {
	for from, want := range map[int]error{
		10: ErrRelistTooLarge,
		3:  ErrWentBack, // the store had no such object at 3, and the end of the list will not be read
	} {
		ts := newTestFeed(t, 0)
		ts.BeginReplace(false)
		var err error
		for i := 0; err == nil && i < 40; i++ {
			err = ts.put(0, fmt.Sprintf("n%d", i), from+i, 1<<20)
		}
		if !errors.Is(err, want) || !errors.Is(ts.ended, want) || ts.sink.store.Len() != 2 {
			t.Errorf("%v, %v, %d objects", err, ts.ended, ts.sink.store.Len())
		}
	}
	ts := newTestFeed(t, 0)
	ts.BeginReplace(true)
	check.ErrorIs(t, ts.ended, ErrWentBack)
}

// TestSinkOfAnotherPast checks an upstream that went back in time and has reached its former
// resourceVersions again before it is listed. Its list contains an object in a version that the
// feed has not received, although the feed has received newer versions. If the list is older than
// the feed, such an object proves nothing.
func TestSinkOfAnotherPast(t *testing.T) {
	for _, c := range []struct {
		name, object, uid string
		rv                int
		end               string
		want              error
	}{
		{"an older version", "a", "u-a", 6, "12", ErrWentBack},
		{"another object of the key", "a", "u-z", 7, "12", ErrWentBack},
		{"an object that was gone", "b", "u-b", 2, "12", ErrWentBack},
		{"no newer than before", "b", "u-b", 2, "10", ErrWentBack},
		{"a version that was missed", "a", "u-a", 9, "12", ErrWentBack},
		{"the version that is cached", "a", "u-a", 8, "12", nil},
		{"a newer version", "a", "u-a", 11, "12", nil},
		{"an old list", "a", "u-a", 6, "7", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			ts := newTestFeed(t, 0)
			check.NoError(t, errors.Join(ts.put(wire.Modified, "a", 8, 0), ts.put(wire.Deleted, "b", 10, 0)))
			ts.BeginReplace(false)
			check.NoError(t, ts.putAs(0, c.object, c.uid, c.rv, 0))
			if ts.ended != nil {
				t.Error("it gave up before the list was through:", ts.ended)
			}
			ts.EndReplace(c.end)
			check.ErrorIs(t, ts.ended, c.want)
		})
	}
}

// errFull is the error with which Reserve refuses bytes.
var errFull = errors.New("full")

// TestSinkFull checks that the sink does not store an object that Reserve refuses, from a list or
// from a watch.
func TestSinkFull(t *testing.T) {
	ts := newTestFeed(t, 0)
	ts.refusal = errFull
	for _, eventType := range []wire.EventType{0, wire.Added} {
		if err := ts.put(eventType, "c", 9, 0); !errors.Is(err, errFull) || ts.Flush() != 0 || ts.sink.store.Len() != 2 {
			t.Errorf("%v: %v, %d objects", eventType, err, ts.sink.store.Len())
		}
	}
}
