package watchcache

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestPagedBytes checks that the bytes retained for pages are counted and bounded. When they exceed
// the limit, the oldest state is dropped first, without waiting for a new LIST.
func TestPagedBytes(t *testing.T) {
	const objects = 20
	synctest.Test(t, func(t *testing.T) {
		lc := newLargeCache(t, largeLog)
		defer lc.close()
		put := func() { lc.putAll(objects) }
		put()
		first := lc.list("", "limit=1")
		if n := lc.cache.Stats().PagedBytes; first.Metadata.Continue == "" || n != 0 {
			t.Errorf("%d bytes are kept before anything has changed", n)
		}
		expect := func(states int) {
			t.Helper()
			lc.list("", "") // replaces objects that pooled buffers retain
			counted, pinned := lc.cache.Stats().PagedBytes, lc.pinned()
			if counted < pinned || counted > pinned+pinned/5+2*largeLog || pinned < int64(states-1)*objects*largeBytes/2 {
				t.Errorf("%d states: %d bytes are counted, %d are pinned", states, counted, pinned)
			}
		}
		put()
		put() // no state contains these versions
		expect(1)
		second := lc.list("", "limit=1")
		put()
		expect(2)
		lc.cache.pagedStates.limit = 5 * objects * largeBytes / 2
		third := lc.list("", "limit=1")
		time.Sleep(3 * stateCheckInterval)
		put()
		time.Sleep(2 * stateCheckInterval)
		check.Equal(t, lc.cache.pagedStates.count(), 2, "states are kept")
		for i, page := range []list{first, second, third} {
			l := lc.list("", "continue="+page.Metadata.Continue)
			if gone := l.Code == 410 && l.Metadata.Continue != ""; gone != (i == 0) {
				t.Errorf("page %d: %d, %d items", i, l.Code, len(l.Items))
			}
		}
	})
}

// TestHistoryBytes checks that a history uses the memory that Bytes returns.
func TestHistoryBytes(t *testing.T) {
	check.Equal(t, reflect.TypeFor[historyPoint]().Size(), historyPointBytes, "a point takes bytes")
	check.Equal(t, reflect.TypeFor[relistRange]().Size(), relistRangeBytes, "a relist takes bytes")
	const limit = 1000
	h := NewHistory(limit, 1, 1)
	for i := range uint64(3 * limit) {
		h.Add(2+i, 2+i)
	}
	if n := h.Bytes(); n < limit*historyPointBytes || n > 2*limit*historyPointBytes {
		t.Errorf("%d points are counted as %d bytes", limit, n)
	}
}
