package watchcache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/core/resourceversion"
)

// drained is a client that records when its watch ended.
type drained struct {
	*recorder
	ended chan time.Time
}

// watchUntilEnd starts a WATCH that only the cache ends.
func (tc *testCache) watchUntilEnd(query string) *drained {
	d := &drained{newRecorder(), make(chan time.Time, 1)}
	go tc.serveUntilEnd(d, query)
	return d
}

// watchHeld is watchUntilEnd for a client that reads nothing until it is unblocked.
func (tc *testCache) watchHeld(query string) *drained {
	d := &drained{newRecorder(), make(chan time.Time, 1)}
	d.block()
	go tc.serveUntilEnd(d, query)
	return d
}

func (tc *testCache) serveUntilEnd(d *drained, query string) {
	serveList(tc.cache, d, newRequest("watch=1&"+query), "", "")
	d.ended <- time.Now()
}

// TestDrain checks that the watches end at various times within the drain, and deliver all changes
// before their end. A watch with bookmarks ends with a bookmark from which its client can resume. A
// watch from a future resourceVersion receives nothing.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := newTestCache(t, 1<<20, nil)
		defer tc.close()
		first := tc.put("ns", "first", "red").rv
		var marked, plain []*drained
		for _, query := range redQueries {
			marked = append(marked, tc.watchUntilEnd("allowWatchBookmarks=1&"+query))
			plain = append(plain, tc.watchUntilEnd(query))
		}
		future := tc.watchUntilEnd("allowWatchBookmarks=1&resourceVersion=100000")
		synctest.Wait()
		const over = 10 * time.Second
		begun := time.Now()
		tc.cache.Drain(over)
		tc.cache.Drain(0) // a second drain does nothing
		synctest.Wait()
		late := tc.watchUntilEnd("allowWatchBookmarks=1&resourceVersion=" + resourceversion.Format(first))
		red := tc.put("ns", "second", "red").rv
		blue := tc.put("ns", "third", "blue").rv // no watcher receives it, but each bookmark includes it
		time.Sleep(over)
		synctest.Wait()
		moments := map[time.Time]bool{}
		for _, d := range slices.Concat(marked, plain, []*drained{late, future}) {
			at := <-d.ended
			moments[at] = true
			if took := at.Sub(begun); took < 0 || took > over {
				t.Errorf("ended after %v", took)
			}
		}
		if len(moments) < 8 {
			t.Errorf("they ended at %d moments", len(moments))
		}
		for _, d := range marked {
			events := d.events(t)
			last := events[len(events)-1]
			if !isBookmark(last) || len(events) > 4 { // including the initial event and its bookmark
				t.Fatalf("%v", events)
			}
			wants := []uint64{blue, red, first}
			if !slices.ContainsFunc(wants, func(rv uint64) bool { return last == "BOOKMARK@"+resourceversion.Format(rv) }) {
				t.Errorf("%v", events)
			}
			if sees := last != "BOOKMARK@"+resourceversion.Format(first); sees != slices.Contains(events, "ADDED ns/second@"+resourceversion.Format(red)) {
				t.Errorf("%v", events)
			}
		}
		for _, d := range plain {
			if got := d.events(t); len(got) == 0 || slices.ContainsFunc(got, isBookmark) {
				t.Errorf("%v", got)
			}
		}
		if got := future.events(t); len(got) > 0 {
			t.Errorf("a watch from a future version received %v", got)
		}
		if l := tc.list("", ""); len(l.Items) != 3 {
			t.Errorf("a LIST: %+v", l)
		}
		after := tc.watchUntilEnd("allowWatchBookmarks=1&resourceVersion=" + resourceversion.Format(red))
		synctest.Wait()
		want := []string{"ADDED ns/third@" + resourceversion.Format(blue), "BOOKMARK@" + resourceversion.Format(blue)}
		if got := after.events(t); !slices.Equal(got, want) {
			t.Errorf("one that begins afterwards: %v", got)
		}
	})
}

// TestDrainDuringInitialEvents checks that a watch sends no bookmark if its client has not received
// all initial events.
func TestDrainDuringInitialEvents(t *testing.T) {
	const query = "allowWatchBookmarks=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
	synctest.Test(t, func(t *testing.T) {
		tc := newTestCache(t, 1<<20, nil)
		defer tc.close()
		for i := range 1000 { // more objects than fit into a buffer
			tc.put("ns", fmt.Sprint("t", i), "red")
		}
		slow, patient := tc.watchHeld(query), tc.watchHeld(query)
		synctest.Wait()
		tc.cache.Drain(time.Second)
		time.Sleep(time.Second / 2)
		patient.unblock()
		time.Sleep(time.Second)
		slow.unblock()
		synctest.Wait()
		if got := slow.events(t); len(got) >= 1000 || slices.ContainsFunc(got, isBookmark) {
			t.Errorf("%d events, %v", len(got), got[len(got)-1])
		}
		if got := patient.events(t); len(got) != 1002 || !isBookmark(got[1000]) || !isBookmark(got[1001]) {
			t.Errorf("%d events, %v", len(got), got[len(got)-1])
		}
	})
	synctest.Test(t, func(t *testing.T) {
		tc := newTestCache(t, 1<<20, func(c *Config) {
			c.Bookmarks = func() (time.Duration, bool) { return time.Hour, false }
		})
		defer tc.close()
		owed := tc.watchUntilEnd(query)
		synctest.Wait()
		tc.cache.Drain(0)
		synctest.Wait()
		if got := owed.events(t); len(got) > 0 {
			t.Errorf("in place of the bookmark that ends the initial events: %v", got)
		}
	})
}

// TestLastBookmark checks that a watcher has received every change up to its last bookmark, while
// other goroutines change the store and close the cache.
func TestLastBookmark(t *testing.T) {
	for seed := range uint64(50) {
		tc := newTestCache(t, 1<<20, nil)
		rnd := rand.New(rand.NewPCG(seed, 3))
		history, red := map[uint64]map[string]uint64{}, map[string]uint64{}
		for i := range 8 {
			red[fmt.Sprint("ns/t", i)] = tc.put("ns", fmt.Sprint("t", i), "red").rv
			history[tc.rv] = cloneMap(red)
		}
		var clients []*drained
		for _, query := range redQueries {
			clients = append(clients, tc.watchUntilEnd("allowWatchBookmarks=1&resourceVersion="+resourceversion.Format(firstVersion)+"&"+query))
		}
		closes := rnd.IntN(40)
		for i := range 40 {
			if i == closes {
				if seed%2 == 0 {
					tc.cache.Close()
				} else {
					tc.cache.Drain(0)
				}
			}
			tc.change(rnd, red)
			history[tc.rv] = cloneMap(red)
		}
		tc.store.Close()
		tc.cache.Close()
		for _, d := range clients {
			<-d.ended
			events := d.events(t)
			last := len(events) - 1
			if last < 0 || !isBookmark(events[last]) {
				continue
			}
			var rv uint64
			if _, err := fmt.Sscanf(events[last], "BOOKMARK@%d", &rv); err != nil {
				t.Fatal(err)
			}
			if got, want := replay(t, events[:last]), history[rv]; fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("seed %d, at %d:\ngot  %v\nwant %v\n%s", seed, rv, got, want, strings.Join(events, "\n"))
			}
		}
	}
}

// TestExpiredWithoutBookmark checks that a client that must list again receives no version to
// resume from.
func TestExpiredWithoutBookmark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := newTestCache(t, 1<<20, nil)
		defer tc.close()
		d := tc.watchUntilEnd("allowWatchBookmarks=1&resourceVersion=" + resourceversion.Format(firstVersion))
		synctest.Wait()
		tc.put("ns", "a", "red")
		tc.cache.Expire()
		<-d.ended
		got := d.events(t)
		if len(got) == 0 || got[len(got)-1] != "ERROR 410" || slices.ContainsFunc(got, isBookmark) {
			t.Errorf("%v", got)
		}
	})
}
