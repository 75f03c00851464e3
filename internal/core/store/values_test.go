package store

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/core/codec"
)

// valuesOf returns the decoded values of a change.
func valuesOf(t *testing.T, s *Store, ch *Change) (was, is *corev1.Pod) {
	t.Helper()
	a, b, err := s.Values(ch)
	if err != nil {
		t.Fatal(err)
	}
	was, _ = a.(*corev1.Pod)
	is, _ = b.(*corev1.Pod)
	return was, is
}

// handlerCursors returns n cursors of handlers that have read the initial state.
func handlerCursors(s *Store, n int) (cursors []*Cursor) {
	for range n {
		c := s.NotifyingCursor(nil, nil)
		drain(c)
		cursors = append(cursors, c)
	}
	return cursors
}

// nextOne returns the only change that a cursor has left.
func nextOne(t *testing.T, c *Cursor) *Change {
	t.Helper()
	changes := make([]Change, 2)
	if n := c.Next(changes); n != 1 {
		t.Fatalf("%d changes, want 1", n)
	}
	return &changes[0]
}

// check checks the byte count and the positions of the entries. The caller holds mu.
func (c *decodedCache) check(t *testing.T) {
	t.Helper()
	bytes := int64(0)
	for i, d := range c.entries {
		if d.strong.Load() != nil {
			bytes += d.bytes
		}
		if int(d.pos) != i || d.owner == nil {
			t.Fatalf("an entry is in another place")
		}
	}
	if bytes != c.bytes {
		t.Fatalf("the cache counts %d bytes and has %d", c.bytes, bytes)
	}
}

// collect runs the garbage collector until it has freed all values to which only weak pointers
// refer.
func collect() {
	runtime.GC()
	runtime.GC()
}

// TestValuesStayUntilTheLastHandlerPasses checks that all handlers of a change receive the same
// values. All handlers have read the change before the first one decodes it, and the garbage
// collector runs between the handlers. The log must keep the values until each handler has called
// Next again.
func TestValuesStayUntilTheLastHandlerPasses(t *testing.T) {
	s := newStore(t, decodeConfig())
	w := fillPods(t, s, 1)
	cursors := handlerCursors(s, 3)
	putPod(t, w, smallPod("", "p0", 0, 200, nil, ""))
	w.Flush()
	var changes []*Change
	for _, c := range cursors {
		changes = append(changes, nextOne(t, c))
	}
	was, is := valuesOf(t, s, changes[0])
	places := fmt.Sprintf("%p %p", was, is) // a string keeps no value alive
	if was.ResourceVersion != "100" || is.ResourceVersion != "200" {
		t.Fatalf("the values are those of %s and %s", was.ResourceVersion, is.ResourceVersion)
	}
	for i, c := range cursors {
		was, is = nil, nil
		collect()
		if s.log.len() != 1 || s.Memory().Decoded == 0 {
			t.Fatalf("the log keeps %d changes, and %d bytes of values, for handler %d", s.log.len(), s.Memory().Decoded, i)
		}
		if was, is = valuesOf(t, s, changes[i]); fmt.Sprintf("%p %p", was, is) != places {
			t.Errorf("handler %d gets its own values", i)
		}
		if n := c.Next(make([]Change, 1)); n != 0 {
			t.Errorf("handler %d gets %d more changes", i, n)
		}
	}
	if kept := s.decoder.cache.forHandlers.Load(); s.log.len() != 0 || kept != 0 || s.log.values != nil {
		t.Errorf("the log keeps %d changes, and %d bytes of values, for no handler", s.log.len(), kept)
	}
	if hits, misses := s.DecodedReads(); hits != 6 || misses != 2 {
		t.Errorf("%d values were found and %d decoded", hits, misses)
	}
}

// TestValuesOfOneHandler checks that the log keeps no values for a single handler. While a caller
// refers to the new value of a change, readers must receive the same value, and it must be the old
// value of the next change.
func TestValuesOfOneHandler(t *testing.T) {
	s := newStore(t, decodeConfig())
	w := fillPods(t, s, 1)
	c := handlerCursors(s, 1)[0]
	last := (*corev1.Pod)(nil)
	for version := 200; version < 205; version++ {
		putPod(t, w, smallPod("", "p0", 0, version, nil, ""))
		w.Flush()
		was, is := valuesOf(t, s, nextOne(t, c))
		if last != nil && was != last {
			t.Errorf("version %s was decoded again as the old one", was.ResourceVersion)
		}
		last = is
		if read := decoded(t, get(t, s, "p0")); read != is || s.decoder.cache.forHandlers.Load() != 0 {
			t.Error("a reader gets another value, or the log keeps it")
		}
		if how := held(get(t, s, "p0")); how != "weak" {
			t.Errorf("after a handler and one reader the value is %s", how)
		}
		if decoded(t, get(t, s, "p0")); version == 204 && held(get(t, s, "p0")) != "strong" {
			t.Error("what is read twice is not held")
		}
	}
	resynced := &Change{Old: get(t, s, "p0"), New: get(t, s, "p0")}
	if was, is := valuesOf(t, s, resynced); was != last || is != last {
		t.Error("a resync has other values")
	}
}

// TestValuesInitial checks that the store keeps no decoded values after a single handler has
// received the initial state.
func TestValuesInitial(t *testing.T) {
	s := newStore(t, decodeConfig())
	fillPods(t, s, 10)
	c := s.NotifyingCursor(nil, nil)
	for _, ch := range drain(c) {
		valuesOf(t, s, &ch)
	}
	if n := s.Memory().Decoded; n != 0 || held(get(t, s, "p0")) != "packed" {
		t.Errorf("%d bytes are decoded, p0 is %s", n, held(get(t, s, "p0")))
	}
}

// TestValuesAreBounded checks that the log keeps the values of the oldest changes: at most
// LogBytes, and at most half of the budget. The values of readers must fit the rest of the budget.
func TestValuesAreBounded(t *testing.T) {
	for name, bound := range map[string]func(*Config){
		"log":    func(c *Config) { c.LogBytes = 20_000 },
		"budget": func(c *Config) { c.DecodedBudget = 40_000 },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := decodeConfig()
			bound(&cfg)
			s := newStore(t, cfg)
			w := s.Writer(Scope{})
			handlerCursors(s, 2)
			c := handlerCursors(s, 1)[0]
			for i := range 100 {
				putPod(t, w, smallPod("", "p"+strconv.Itoa(i), i, 100+i, nil, ""))
			}
			w.Flush()
			changes := drain(c)
			for i := range changes {
				valuesOf(t, s, &changes[i])
				decoded(t, changes[i].New)
				decoded(t, changes[i].New)
				cache := s.decoder.cache
				cache.check(t)
				if kept := cache.forHandlers.Load(); kept > 20_000 {
					t.Fatalf("%d bytes are kept for handlers", kept)
				}
				if sum := cache.bytes + cache.forHandlers.Load(); cfg.DecodedBudget > 0 && sum > cfg.DecodedBudget {
					t.Fatalf("%d bytes are decoded in all", sum)
				}
			}
			n := uint64(len(s.log.values))
			for rev := range s.log.values {
				if rev > n {
					t.Errorf("of %d kept values, one is of revision %d", n, rev)
				}
			}
			if n < 10 || n == 100 {
				t.Errorf("the values of %d changes are kept", n)
			}
		})
	}
}

// TestValuesOfDroppedChanges checks that the log drops the values of a change together with the
// change. It drops a change because the log is full, or because the handlers have ended. It must
// not store values for a dropped change later.
func TestValuesOfDroppedChanges(t *testing.T) {
	cfg := decodeConfig()
	cfg.LogBytes = 64 * changeBytes
	s := newStore(t, cfg)
	w := s.Writer(Scope{})
	cursors := handlerCursors(s, 2)
	putPod(t, w, smallPod("", "p0", 0, 100, nil, ""))
	w.Flush()
	first := nextOne(t, cursors[0])
	valuesOf(t, s, first)
	if len(s.log.values) != 1 {
		t.Fatal("the values are not kept")
	}
	for i := range 200 {
		putPod(t, w, smallPod("", "q"+strconv.Itoa(i), 1+i, 101+i, nil, ""))
	}
	w.Flush()
	collect()
	if valuesOf(t, s, first); s.log.values != nil || s.decoder.cache.forHandlers.Load() != 0 {
		t.Error("values of a change that is not in the log are kept")
	}
	changes := drain(cursors[0])
	valuesOf(t, s, &changes[len(changes)-1])
	for _, c := range cursors {
		c.Close()
	}
	if s.log.values != nil || s.decoder.cache.forHandlers.Load() != 0 || s.log.len() != 0 {
		t.Error("values are kept for handlers that have ended")
	}
}

// TestValuesOfUpdate checks the codec.Version that Decode receives for an update. It must contain
// the old version with its value, and state whether a caller has received that value. If Decode
// fails, each version must be decoded alone, and the error must name the object.
func TestValuesOfUpdate(t *testing.T) {
	var olds []codec.Version
	fails := false
	broken := errors.New("broken")
	cfg := decodeConfig()
	cfg.Decode = func(raw []byte, earlier *codec.Version) (any, error) {
		if earlier != nil {
			olds = append(olds, *earlier)
		}
		if fails {
			return nil, broken
		}
		return decodePod(raw, earlier)
	}
	s := newStore(t, cfg)
	w := fillPods(t, s, 1)
	c := handlerCursors(s, 1)[0]
	change := func(version int) *Change {
		putPod(t, w, smallPod("", "p0", 0, version, nil, ""))
		w.Flush()
		return nextOne(t, c)
	}
	was, first := valuesOf(t, s, change(200))
	_, second := valuesOf(t, s, change(201))
	if len(olds) != 2 || olds[0].Value != any(was) || !olds[0].Unread || olds[1].Value != any(first) || olds[1].Unread || second.ResourceVersion != "201" {
		t.Errorf("the old values are %v", olds)
	}
	runtime.KeepAlive(first)
	runtime.KeepAlive(second)
	fails = true
	if _, _, err := s.Values(change(202)); !errors.Is(err, broken) || err.Error() != "decode p0: broken" {
		t.Errorf("the error is %v", err)
	}
}

// TestValuesThatComeWithAVersion checks that handlers receive the value that a writer put with a
// version. Without a handler, the value must not be kept.
func TestValuesThatComeWithAVersion(t *testing.T) {
	s := newStore(t, decodeConfig())
	w := s.Writer(Scope{})
	c := handlerCursors(s, 1)[0]
	pod := smallPod("", "p0", 0, 100, nil, "")
	raw, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.PutAs(metaOf("p0", "100"), nil, raw, pod); err != nil {
		t.Fatal(err)
	}
	w.Flush()
	place := fmt.Sprintf("%p", pod)
	pod = nil
	collect()
	if _, is := valuesOf(t, s, nextOne(t, c)); fmt.Sprintf("%p", is) != place {
		t.Error("the handler gets another value")
	}
	if drain(c); s.log.values != nil {
		t.Error("the value stays")
	}
	c.Close()
	if err := w.PutAs(metaOf("p1", "101"), nil, raw, smallPod("", "p1", 0, 101, nil, "")); err != nil {
		t.Fatal(err)
	}
	if w.Flush(); held(get(t, s, "d/p1")) != "packed" {
		t.Error("without a handler the value is kept")
	}
}

// TestDecodedReads checks that DecodedReads counts separately the reads that decode an object and
// the reads that find a decoded value.
func TestDecodedReads(t *testing.T) {
	s := newStore(t, decodeConfig())
	fillPods(t, s, 2)
	o := get(t, s, "p0")
	value := decoded(t, o)                   // a miss
	decoded(t, get(t, s, "p1"))              // a miss
	decoded(t, o)                            // a hit
	_, is := valuesOf(t, s, &Change{New: o}) // a hit
	if hits, misses := s.DecodedReads(); hits != 2 || misses != 2 || is != value {
		t.Errorf("%d hits, %d misses", hits, misses)
	}
}
