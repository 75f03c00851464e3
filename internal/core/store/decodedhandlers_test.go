package store

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// handler gets changes of objects as a handler of an informer does, one of others and itself.
type handler struct {
	t       *testing.T
	s       *Store
	w       *Writer
	version int
	decoded int // values that had to be decoded
}

func newHandler(t *testing.T, cfg Config) *handler {
	s := newStore(t, cfg)
	return &handler{t: t, s: s, w: s.Writer(Scope{})}
}

// change changes an object and returns the new version.
func (h *handler) change(name string) *Object {
	h.t.Helper()
	h.version++
	putPod(h.t, h.w, smallPod("", name, 1, h.version, nil, ""))
	h.w.Flush()
	return get(h.t, h.s, name)
}

// take returns the value of a version, decoded if need be.
func (h *handler) take(o *Object) any {
	h.t.Helper()
	if value, _, ok := o.Cached(); ok {
		return value
	}
	h.decoded++
	value, err := o.DecodeOnce()
	if err != nil {
		h.t.Fatal(err)
	}
	return value
}

// update gets an update, and returns the new version's value.
func (h *handler) update(was, is *Object) any {
	h.t.Helper()
	h.take(was)
	value := h.take(is)
	h.s.ReleaseLatest(was, 0)
	h.s.CacheLatest(is, value, nil)
	return value
}

// inTurn changes n objects one after the other, that many times.
func (h *handler) inTurn(n, times int) {
	h.t.Helper()
	last := make([]*Object, n)
	for i := range n {
		var ok bool
		if last[i], ok = h.s.Get("p" + strconv.Itoa(i)); !ok {
			last[i] = h.change("p" + strconv.Itoa(i))
		}
	}
	for range times {
		for i := range n {
			is := h.change("p" + strconv.Itoa(i))
			h.update(last[i], is)
			last[i] = is
		}
	}
}

// kept returns how many objects are kept for their next change, and their bytes.
func (h *handler) kept() (objects int, bytes int64) {
	c := h.s.decoder.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	c.check(h.t)
	return len(c.latest.entries), c.latest.bytes
}

// check checks the sums and positions of the segments. The caller holds mu.
func (c *decodedCache) check(t *testing.T) {
	t.Helper()
	for _, s := range []*cacheSegment{&c.read, &c.latest, &c.forHandlers} {
		bytes := int64(0)
		for i, d := range s.entries {
			strong := d.strong.Load() != nil
			if strong {
				bytes += d.bytes
			}
			if d.segment != s || int(d.pos) != i || d.owner == nil || s != &c.read && (!strong || d.owner.decoded.Load() != d) {
				t.Fatalf("%s is in another segment, or in another place", d.owner.Key())
			}
		}
		if bytes != s.bytes {
			t.Fatalf("a segment counts %d bytes and has %d", s.bytes, bytes)
		}
	}
}

// TestCacheLatestFlood: most of the room stays free if more objects change in turn than it is for.
func TestCacheLatestFlood(t *testing.T) {
	cfg := decodeConfig()
	cfg.DecodedBudget = 2 * 8 * 3000
	h := newHandler(t, cfg)
	h.inTurn(2000, 4)
	if objects, bytes := h.kept(); objects == 0 || bytes > 3000 {
		t.Errorf("%d objects of %d bytes are kept", objects, bytes)
	}
}

// TestCacheLatestInTurn: objects that change in turn are kept as far as there is room, so that
// nothing is decoded twice, and let go of when there are too many of them.
func TestCacheLatestInTurn(t *testing.T) {
	cfg := decodeConfig()
	cfg.DecodedBudget = 240_000
	h := newHandler(t, cfg)
	h.inTurn(200, 10)
	if objects, bytes := h.kept(); objects != 200 || bytes < h.s.decoder.cache.latestLimit/unconditionalFraction || h.decoded > 200*14 {
		t.Errorf("%d objects of %d bytes are kept, %d values were decoded", objects, bytes, h.decoded)
	}
	h.inTurn(8000, 2)
	if objects, bytes := h.kept(); objects == 0 || bytes > h.s.decoder.cache.latestLimit/unconditionalFraction {
		t.Errorf("%d objects of %d bytes are still kept", objects, bytes)
	}
}

// TestCacheLatestForReaders: objects that change once are kept if a caller reads them afterwards.
func TestCacheLatestForReaders(t *testing.T) {
	cfg := decodeConfig()
	cfg.DecodedBudget = 2 << 20
	h := newHandler(t, cfg)
	for i := range 1000 {
		name := "p" + strconv.Itoa(i)
		was, is := h.change(name), h.change(name)
		value := h.update(was, is)
		if read := decoded(t, is); read != value {
			t.Fatal("a reader decodes again what a handler has just got")
		}
	}
	if objects, bytes := h.kept(); objects != 1000 {
		t.Errorf("%d objects of %d bytes are kept", objects, bytes)
	}
}

// TestCacheLatestBudget: later objects do not displace those that are kept, and nothing is kept
// after the end.
func TestCacheLatestBudget(t *testing.T) {
	cfg := decodeConfig()
	cfg.DecodedBudget = 2 * 8 * 3000
	h := newHandler(t, cfg)
	first := h.change("first")
	h.s.CacheLatest(first, h.take(first), nil)
	for i := range 200 {
		name := "p" + strconv.Itoa(i)
		h.update(h.change(name), h.change(name))
		if objects, bytes := h.kept(); objects == 0 || bytes > 3000 {
			t.Fatalf("%d objects of %d bytes are kept", objects, bytes)
		}
	}
	if !first.IsDecoded() {
		t.Error("the first one was pushed out")
	}
	last := h.change("p0")
	h.s.Close()
	if first.IsDecoded() {
		t.Error("something is kept after the end")
	}
	h.update(first, last)
	if objects, bytes := h.kept(); objects != 0 || bytes != 0 || h.s.CacheForHandlers(first, 1, 1) != 1 || first.IsDecoded() {
		t.Errorf("%d objects of %d bytes are kept after the end", objects, bytes)
	}
}

// TestCacheLatestIdle: a value is kept until its object has not changed for long, even if it is
// read, and has the note of CacheLatest. Then it is held if it is read, and goes if not.
func TestCacheLatestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := decodeConfig()
		cfg.DecodedIdle = 8 * time.Second
		h := newHandler(t, cfg)
		o := h.change("p0")
		if !h.s.CacheLatest(o, "value", func() any { return "note" }) {
			t.Fatal("not kept")
		}
		other := h.change("p1")
		h.s.CacheLatest(other, "other", nil)
		time.Sleep(7 * time.Second)
		if value, note, ok := o.Cached(); !ok || value != "value" || note != "note" || !other.IsDecoded() {
			t.Fatalf("%v, %v, %t", value, note, ok)
		}
		for range 5 {
			if value, _ := o.Decoded(); value != "value" {
				t.Fatalf("a reader gets %v", value)
			}
			time.Sleep(6 * time.Second)
			synctest.Wait()
		}
		if n, _ := h.kept(); n != 0 || held(o) != "strong" || other.IsDecoded() {
			t.Errorf("%d are kept; what is read is %s, what is not: %s", n, held(o), held(other))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if held(o) == "strong" || h.s.Memory().Decoded != 0 {
			t.Error("an idle value is held")
		}
		h.s.Close()
	})
}

// TestCacheLatestOfWhatIsRead: what is read already is kept for the next change too, as the same
// value.
func TestCacheLatestOfWhatIsRead(t *testing.T) {
	h := newHandler(t, decodeConfig())
	was := h.change("p0")
	read := decoded(t, was)
	if h.s.CacheLatest(was, h.take(was), nil); held(was) != "strong" {
		t.Fatalf("%s", held(was))
	}
	is := h.change("p0")
	if h.take(was) != read {
		t.Error("a version that was replaced is not there for the handler")
	}
	if h.update(was, is); held(was) != "weak" {
		t.Errorf("after the update the old version is %s", held(was))
	}
	h.kept()
}

// TestCacheLatestOfWhatWasRead: what is read while it is kept is held on for that, whether it was
// read before or not.
func TestCacheLatestOfWhatWasRead(t *testing.T) {
	for _, before := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			cfg := decodeConfig()
			cfg.DecodedIdle = 8 * time.Second
			h := newHandler(t, cfg)
			defer h.s.Close()
			o := h.change("p0")
			if before {
				decoded(t, o)
			}
			h.s.CacheLatest(o, h.take(o), nil)
			time.Sleep(7 * time.Second)
			synctest.Wait()
			decoded(t, o)
			decoded(t, o)
			time.Sleep(1500 * time.Millisecond)
			synctest.Wait()
			if n, _ := h.kept(); n != 0 || held(o) != "strong" {
				t.Errorf("read before %v: %d are kept, a value that was just read is held %s", before, n, held(o))
			}
			h.s.decoder.cache.check(t)
		})
	}
}

// TestCacheForHandlers: a value is there until as many handlers have got it as it is held for, or
// for a short time.
func TestCacheForHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := decodeConfig()
		cfg.DecodedIdle = 8 * time.Second
		h := newHandler(t, cfg)
		o := h.change("p0")
		first := h.s.CacheForHandlers(o, h.take(o), 2)
		if other, _ := o.DecodeCopy(); h.s.CacheForHandlers(o, other, 2) != first || h.take(o) != first || o.IsDecoded() || h.s.Memory().Decoded != 0 {
			t.Error("two others have taken it, and it is held")
		}
		h.s.CacheForHandlers(o, first, 1)
		if read := decoded(t, o); read != first || h.take(o) != first || held(o) != "weak" {
			t.Error("a reader took a handler's, or has one of its own")
		}
		if decoded(t, o) != first || held(o) != "strong" {
			t.Error("what is read again is not held")
		}
		o = h.change("p0")
		first = h.s.CacheForHandlers(o, h.take(o), 1)
		h.s.CacheLatest(o, first, nil)
		if h.s.ReleaseLatest(o, 1); h.take(o) != first || o.IsDecoded() {
			t.Error("a version that was replaced is not held for the other handler, or for good")
		}
		h.s.CacheForHandlers(o, first, 1)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if o.IsDecoded() || h.s.Memory().Decoded != 0 {
			t.Error("it is held for a handler that does not come")
		}
		h.s.Close()
	})
}

// TestCacheForHandlersBudget: values for handlers keep to their share of the budget; about the
// newest values are there.
func TestCacheForHandlersBudget(t *testing.T) {
	cfg := decodeConfig()
	cfg.DecodedBudget = 2 * 10_000
	h := newHandler(t, cfg)
	var versions []*Object
	for i := range 500 {
		o := h.change("p" + strconv.Itoa(i))
		h.s.CacheForHandlers(o, h.take(o), 1)
		versions = append(versions, o)
		h.kept()
		if n := h.s.decoder.cache.forHandlers.bytes; n > 10_000 {
			t.Fatalf("%d bytes are held for handlers", n)
		}
	}
	n, newest := len(h.s.decoder.cache.forHandlers.entries), 0
	for _, o := range versions[len(versions)-n:] {
		if o.IsDecoded() {
			newest++
		}
	}
	if n < 10 || newest < n/2 {
		t.Errorf("%d are held, among them %d of the newest", n, newest)
	}
}

// TestBudgetOfAll: values for readers, changes and handlers keep to one budget.
func TestBudgetOfAll(t *testing.T) {
	cfg := decodeConfig()
	cfg.DecodedBudget = 20_000
	h := newHandler(t, cfg)
	for i := range 500 {
		o := h.change("p" + strconv.Itoa(i))
		switch value := h.take(o); i % 3 {
		case 0:
			h.s.CacheLatest(o, value, nil)
		case 1:
			h.s.CacheForHandlers(o, value, 1)
		}
		decoded(t, o)
		decoded(t, o)
		h.kept()
		if n := h.s.decoder.cache.held(); n > cfg.DecodedBudget {
			t.Fatalf("%d bytes are held", n)
		}
	}
	if c := h.s.decoder.cache; c.read.bytes == 0 || c.latest.bytes == 0 || c.forHandlers.bytes == 0 || c.held() < cfg.DecodedBudget/2 {
		t.Errorf("%d bytes are held for readers, %d for changes, %d for handlers", c.read.bytes, c.latest.bytes, c.forHandlers.bytes)
	}
}

// TestDecodedReads: reads are counted by whether they decode.
func TestDecodedReads(t *testing.T) {
	h := newHandler(t, decodeConfig())
	o := h.change("p0")
	value := decoded(t, o)         // a miss
	h.s.CacheLatest(o, value, nil) //
	decoded(t, h.change("x"))      // a miss
	decoded(t, o)
	h.take(o)
	h.s.AddDecodedMisses(2)
	if hits, misses := h.s.DecodedReads(); hits != 2 || misses != 4 {
		t.Errorf("%d hits, %d misses", hits, misses)
	}
}
