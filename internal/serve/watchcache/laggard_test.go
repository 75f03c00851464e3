package watchcache

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

// pausing is a slow client: for each streamBuffer bytes, it needs the time pause.
type pausing struct {
	*recorder
	pause time.Duration
}

func (p pausing) Write(b []byte) (int, error) {
	time.Sleep(p.pause * time.Duration(len(b)) / streamBuffer)
	return p.recorder.Write(b)
}

// watchSlowly is watchUntilEnd for a pausing client.
func (tc *testCache) watchSlowly(pause time.Duration, query string) *drained {
	d := &drained{newRecorder(), make(chan time.Time, 1)}
	go func() {
		serveList(tc.cache, pausing{d.recorder, pause}, newRequest("watch=1&timeoutSeconds=36000&"+query), "", "")
		d.ended <- time.Now()
	}()
	return d
}

// churn changes many red things in turn until stop is called.
func (tc *testCache) churn(many int, every time.Duration) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			default:
			}
			tc.put("ns", fmt.Sprint("t", i%many), "red")
			time.Sleep(every)
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// TestLaggard checks that a watch whose client reads more slowly than changes arrive receives
// bookmarks. When its cache is drained, the watch ends with a bookmark for the changes that were
// sent.
func TestLaggard(t *testing.T) {
	const many, every = 200, 5 * time.Millisecond
	for _, query := range []string{"", "&labelSelector=color%3Dred"} { // without and with the hub
		for _, logBytes := range []int64{10 << 10, 64 << 20} { // falls behind the log or keeps up
			t.Run(fmt.Sprint(query, logBytes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tc := newTestCache(t, logBytes, func(c *Config) { c.BookmarkInterval = 3 * time.Second })
					defer tc.close()
					d := tc.watchSlowly(time.Second, fmt.Sprintf("allowWatchBookmarks=1&resourceVersion=%d%s", firstVersion, query))
					stop := tc.churn(many, every)
					time.Sleep(10 * time.Second)
					marked := slices.ContainsFunc(d.events(t), func(e string) bool { return isBookmark(e) && !strings.Contains(e, "coalesced") })
					if !marked {
						t.Error("no bookmark came")
					}
					tc.cache.Drain(time.Second)
					time.Sleep(10 * time.Second)
					drained := time.Now()
					stop()
					tc.cache.Close()
					if at := <-d.ended; !at.Before(drained) {
						t.Error("the drain did not end it")
					}
					events := d.events(t)
					last := len(events) - 1
					var rv uint64
					if _, err := fmt.Sscanf(events[last], "BOOKMARK@%d", &rv); err != nil || strings.Contains(events[last], "coalesced") {
						t.Fatalf("%s comes last", events[last])
					}
					got := replay(t, slices.DeleteFunc(events, isBookmark))
					for i := range uint64(many) {
						want := firstVersion + 1 + i
						if want > rv {
							break
						}
						want += (rv - want) / many * many
						if key := fmt.Sprint("ns/t", i); got[key] != want {
							t.Fatalf("%s is at %d, not %d, after a bookmark of %d", key, got[key], want, rv)
						}
					}
				})
			})
		}
	}
}

// TestExpireLaggard checks that an expired watch does not send the remaining changes.
func TestExpireLaggard(t *testing.T) {
	const many, pause = 1000, time.Second
	for _, query := range []string{"", "&labelSelector=color%3Dred"} {
		t.Run(query, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tc := newTestCache(t, 10<<10, nil)
				defer tc.close()
				for range 2 {
					for i := range many {
						tc.put("ns", fmt.Sprint("t", i), "red")
					}
				}
				d := tc.watchSlowly(pause, fmt.Sprintf("resourceVersion=%d%s", tc.rv, query))
				synctest.Wait()
				for i := range many {
					tc.put("ns", fmt.Sprint("t", i), "red")
				}
				time.Sleep(pause * 3 / 2)
				if tc.cache.Stats().CaughtUp == 0 || len(d.events(t)) > many/2 {
					t.Errorf("it is not being caught up after %d events: the test shows nothing", len(d.events(t)))
				}
				expired := time.Now()
				tc.cache.Expire()
				tc.store.Close()
				at := <-d.ended
				if took := at.Sub(expired); took > closeGrace+2*pause {
					t.Errorf("it ended after %v", took)
				}
				if got := d.events(t); got[len(got)-1] != "ERROR 410" {
					t.Errorf("%s comes last", got[len(got)-1])
				}
			})
		})
	}
}

// TestShedMarked checks that the cache can end a watch between two events if its client reads more
// slowly than changes arrive. The watch ends with a bookmark if the client has the state of one
// version, and with 410 otherwise. Shed ends no watch that keeps up.
func TestShedMarked(t *testing.T) {
	const many, pause, all = 500, 2 * time.Second, 1 << 40
	for name, tt := range map[string]struct {
		logBytes int64
		query    string
		end      string
	}{
		"in order":               {64 << 20, fmt.Sprintf("resourceVersion=%d", firstVersion+many), "BOOKMARK"},
		"being caught up":        {10 << 10, fmt.Sprintf("resourceVersion=%d", firstVersion+many), "ERROR 410"},
		"being caught up by hub": {64 << 20, fmt.Sprintf("resourceVersion=%d&labelSelector=color%%3Dred", firstVersion+many), "ERROR 410"},
		"being sent the state":   {10 << 10, "resourceVersion=0", "ERROR 410"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tc := newTestCache(t, tt.logBytes, nil)
				defer tc.close()
				put := func() {
					for i := range many {
						tc.put("ns", fmt.Sprint("t", i), "red")
					}
				}
				put()
				healthy := newRecorder()
				defer tc.watch(fmt.Sprintf("resourceVersion=%d", tc.rv), healthy)()
				d := tc.watchSlowly(pause, "allowWatchBookmarks=1&"+tt.query)
				synctest.Wait()
				put()
				if told, _ := tc.cache.Shed(false, 9, all); told != 0 {
					t.Errorf("%d watches must end that only just started to send", told)
				}
				time.Sleep(pause * 3 / 2)
				if told, _ := tc.cache.Shed(false, 9, 0); told != 0 {
					t.Errorf("%d watches must end without a need", told)
				}
				told, bytes := tc.cache.Shed(false, 9, all)
				if again, same := tc.cache.Shed(false, 9, all); told != 1 || bytes == 0 || again != 0 || same != bytes {
					t.Errorf("%d watches must end, with %d bytes, and again %d, with %d", told, bytes, again, same)
				}
				time.Sleep(2 * pause)
				synctest.Wait()
				select {
				case <-d.ended:
				default:
					t.Fatal("it goes on")
				}
				events := d.events(t)
				if last := events[len(events)-1]; !strings.HasPrefix(last, tt.end) || strings.Contains(last, "coalesced") {
					t.Errorf("%s comes last", last)
				}
				check.Equal(t, tc.cache.Stats().Stalled, 1, "are counted")
				last := tc.put("ns", "last", "red").rv
				synctest.Wait()
				if got := healthy.events(t); got[len(got)-1] != fmt.Sprintf("ADDED ns/last@%d", last) {
					t.Errorf("the healthy one got %s last", got[len(got)-1])
				}
			})
		})
	}
}
