package watchcache

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/testing/check"
)

// largeCache is a testCache of large objects that cannot be packed smaller.
type largeCache struct {
	*testCache
	rnd      *rand.ChaCha8
	versions []weak.Pointer[store.Object] // all versions that were written
}

// largeBytes is the size of a large object. largeLog is the size of a log that has room for a few.
const (
	largeBytes = 32 << 10
	largeLog   = 5 * largeBytes
)

func newLargeCache(t *testing.T, logBytes int64) *largeCache {
	return &largeCache{testCache: newTestCache(t, logBytes, nil), rnd: rand.NewChaCha8([32]byte{})}
}

// putLarge writes a large thing at the next resourceVersion, and waits until every client that
// reads has received it.
func (lc *largeCache) putLarge(namespace, name, color string) {
	lc.t.Helper()
	noise := make([]byte, largeBytes*3/4)
	_, _ = lc.rnd.Read(noise)
	lc.rv++
	lc.writeRaw(fmt.Appendf(nil, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":%q,"namespace":%q,"uid":%q,"resourceVersion":"%d",`+
		`"labels":{"color":%q},"annotations":{"noise":%q}},"spec":{"color":%q}}`,
		name, namespace, uidOf(name, 0), lc.rv, color, base64.StdEncoding.EncodeToString(noise), color))
	lc.wrote(namespace, name)
}

func (lc *largeCache) putSmall(namespace, name, color string) {
	lc.t.Helper()
	lc.put(namespace, name, color)
	lc.wrote(namespace, name)
}

func (lc *largeCache) wrote(namespace, name string) {
	o, ok := lc.store.Get(namespace + "/" + name)
	if !ok {
		lc.t.Fatalf("%s/%s is not there", namespace, name)
	}
	lc.versions = append(lc.versions, weak.Make(o))
	synctest.Wait()
}

// pinned returns the bytes of the versions that are still in memory although they are neither in
// the log nor the current versions of the objects. It does not count a version that is in the log
// and that a watch retains too.
func (lc *largeCache) pinned() (n int64) {
	for range 3 { // the second collection frees objects in pools
		runtime.GC()
	}
	for _, v := range lc.versions {
		if o := v.Value(); o != nil {
			n += o.Footprint()
		}
	}
	const record = 128 // the part of a version's Footprint that is not in Memory.Packed
	m := lc.store.Memory()
	return n - m.Packed - int64(m.Objects)*record - m.Log
}

// expectCounted fails the test unless BacklogBytes counts all memory that the watches pin, and not
// much more.
func (lc *largeCache) expectCounted(of string, atLeast int) {
	lc.t.Helper()
	counted, pinned := lc.cache.BacklogBytes(), lc.pinned()
	if pinned < int64(atLeast)*largeBytes/2 {
		lc.t.Errorf("%s: %d bytes are pinned: the test shows nothing", of, pinned)
	}
	if counted < pinned || counted > pinned+pinned/5+2*largeLog {
		lc.t.Errorf("%s: %d bytes are counted, and %d pinned", of, counted, pinned)
	}
}

// valve is a client that reads only as many bytes as the test permits.
type valve struct {
	header  http.Header
	more    chan int // bytes to read
	left    int
	expired chan struct{} // closed when a write's deadline has passed
}

func newValve() *valve {
	return &valve{header: http.Header{}, more: make(chan int), expired: make(chan struct{})}
}

func (v *valve) Header() http.Header { return v.header }
func (v *valve) WriteHeader(int)     {}
func (v *valve) Flush()              {}

func (v *valve) SetWriteDeadline(t time.Time) error {
	if !t.IsZero() && t.Before(time.Now()) {
		close(v.expired)
	}
	return nil
}

func (v *valve) Write(p []byte) (int, error) {
	for v.left < len(p) {
		select {
		case n := <-v.more:
			v.left += n
		case <-v.expired:
			return 0, os.ErrDeadlineExceeded
		}
	}
	v.left -= len(p)
	return len(p), nil
}

// stall starts a watch whose client reads nothing. done is closed when the watch has ended; end
// ends the watch.
func (lc *largeCache) stall(query string) (v *valve, done <-chan struct{}, end func()) {
	v = newValve()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		serveList(lc.cache, v, newRequest("watch=1&timeoutSeconds=36000&"+query).WithContext(ctx), "", "")
	}()
	synctest.Wait()
	return v, ended, func() {
		cancel()
		for {
			select {
			case v.more <- 1 << 30:
			case <-ended:
				return
			}
		}
	}
}

// TestStalledWatchesAreCounted checks that the cache counts the old versions of an object that
// stalled watches retain. It checks this for selectors by namespace, name, field, label and shard,
// which the hub serves. The watches have started at different versions.
func TestStalledWatchesAreCounted(t *testing.T) {
	const stalled = 3
	for _, query := range []string{
		"fieldSelector=metadata.namespace%3Dns", "fieldSelector=metadata.name%3Da", "fieldSelector=spec.color%3Dred",
		"labelSelector=color%3Dred", "shardSelector=shardRange(object.metadata.uid,%270x0000000000000000%27,%270x10000000000000000%27)",
	} {
		t.Run(query, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lc := newLargeCache(t, largeLog)
				defer lc.close()
				lc.putLarge("ns", "a", "red")
				for range stalled {
					_, _, end := lc.stall(fmt.Sprintf("%s&resourceVersion=%d", query, lc.rv))
					defer end()
					for range maxQueued {
						lc.putLarge("ns", "a", "red")
					}
				}
				lc.expectCounted("stalled", (stalled-1)*maxQueued)
			})
		})
	}
}

// TestLeavingVersionsAreCounted checks that a watch retains no uncounted versions of an object that
// repeatedly stops matching. A version that does not match is not the old version of the watch's
// next change, so the watch must not retain it.
func TestLeavingVersionsAreCounted(t *testing.T) {
	for _, query := range []string{"fieldSelector=spec.color%3Dred", "labelSelector=color%3Dred"} {
		t.Run(query, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lc := newLargeCache(t, largeLog)
				defer lc.close()
				lc.putSmall("ns", "a", "red")
				_, _, end := lc.stall(fmt.Sprintf("%s&resourceVersion=%d", query, lc.rv))
				defer end()
				for range maxQueued / 2 {
					lc.putLarge("ns", "a", "blue")
					lc.putSmall("ns", "a", "blue")
					lc.putSmall("ns", "a", "red")
				}
				lc.expectCounted("stalled", 0)
			})
		})
	}
}

// TestTakenChangesAreCounted checks a watch of all objects that has taken changes and is sending
// them. The cache must count these changes when the log does not contain them any more.
func TestTakenChangesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rounds = 3
		lc := newLargeCache(t, 2*batch*largeBytes)
		defer lc.close()
		lc.putLarge("ns", "a", "red")
		for range rounds {
			from := lc.rv
			for range batch {
				lc.putLarge("ns", "a", "red")
			}
			_, _, end := lc.stall(fmt.Sprintf("resourceVersion=%d", from))
			defer end()
			lc.expectNothingBeyondLog()
		}
		for range 3 * batch {
			lc.putLarge("ns", "a", "red")
		}
		lc.expectCounted("taken", (rounds-1)*batch)
	})
}

// expectNothingBeyondLog fails the test if BacklogBytes counts changes that are in the log. It
// checks nothing when the log has dropped changes.
func (lc *largeCache) expectNothingBeyondLog() {
	lc.t.Helper()
	if n := lc.cache.BacklogBytes(); len(lc.versions) <= 2*batch && n > 10*largeBytes {
		lc.t.Errorf("%d bytes are counted that are in the log", n)
	}
}

// putAll creates or changes this number of objects.
func (lc *largeCache) putAll(objects int) {
	for i := range objects {
		lc.putLarge("ns", fmt.Sprint("t", i), "red")
	}
}

// TestCatchUpIsCounted checks a watch that is being caught up. The changes that it still has to
// send must be counted, and this watch must be the first to be shed.
func TestCatchUpIsCounted(t *testing.T) {
	const objects = 40
	for _, query := range []string{"", "fieldSelector=metadata.namespace%3Dns"} {
		t.Run(query, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lc := newLargeCache(t, largeLog)
				defer lc.close()
				put := func() { lc.putAll(objects) }
				put()
				heavy, shed, endHeavy := lc.stall(fmt.Sprintf("%s&resourceVersion=%d", query, lc.rv))
				defer endHeavy()
				_, _, endLight := lc.stall(fmt.Sprintf("fieldSelector=metadata.namespace%%3Dother&resourceVersion=%d", lc.rv))
				defer endLight()
				for range 3 {
					lc.putSmall("other", "b", "red")
				}
				for range maxQueued/objects + 1 {
					put()
				}
				// The client reads the change that was being sent, and a part of the following changes.
				heavy.more <- largeBytes * 3 / 2
				synctest.Wait()
				if lc.cache.Stats().CaughtUp != 1 {
					t.Fatal("it is not being caught up: the test shows nothing")
				}
				lc.expectCounted("caught up", objects/2)
				if n := lc.cache.Stats().Lag; n < objects/2 {
					t.Errorf("the slowest watcher is %d changes behind", n)
				}
				time.Sleep(2 * slowAfter)
				if n := shedStuck(&lc.cache.watchWrites, 1); n != 1 {
					t.Fatalf("%d are let go", n)
				}
				synctest.Wait()
				select {
				case <-shed:
				default:
					t.Fatal("another one is let go")
				}
				if n := lc.cache.BacklogBytes(); n > 2*largeBytes {
					t.Errorf("%d bytes are counted after its end", n)
				}
			})
		})
	}
}

// TestStateIsCounted checks that the cache counts the memory of an initial state that a client does
// not read, and that the watch can be shed. The state retains all objects, for every selector.
// Watches that use the hub from their start share one state, which counts once.
func TestStateIsCounted(t *testing.T) {
	const objects = 40
	for query, watches := range map[string]int{"": 1, "labelSelector=color%3Dred": 3, "labelSelector=color%3Dblue": 1, "fieldSelector=metadata.namespace%3Dns": 3} {
		t.Run(query, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lc := newLargeCache(t, largeLog)
				defer lc.close()
				lc.putLarge("ns", "a", "red")
				put := func() {
					for i := range objects {
						lc.putLarge("ns", fmt.Sprint("t", i), "blue")
					}
				}
				put()
				for range watches {
					_, shed, end := lc.stall(query + "&resourceVersion=0")
					defer func() {
						select {
						case <-shed:
						default:
							t.Error("one is not let go")
						}
						end()
					}()
				}
				put()
				put()
				lc.expectCounted("state", objects)
				time.Sleep(2 * slowAfter)
				check.Equal(t, shedStuck(&lc.cache.watchWrites, 9), watches, "are let go")
				synctest.Wait()
				if n := lc.cache.BacklogBytes(); n > 2*largeBytes {
					t.Errorf("%d bytes are counted after their end", n)
				}
			})
		})
	}
}

// TestSharedChangesCountOnce checks that a change that waits for many watchers counts once.
func TestSharedChangesCountOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many, changes = 200, 5
		lc := newLargeCache(t, largeLog)
		defer lc.close()
		lc.putLarge("ns", "a", "red")
		for range many {
			defer lc.subscribe(interest{values: []interestValue{{byNamespace, "", "ns"}}, namespace: "ns"}).Close()
		}
		for range changes {
			lc.putLarge("ns", "a", "red")
		}
		if n := lc.cache.BacklogBytes(); n < changes*largeBytes/2 || n > 2*changes*largeBytes {
			t.Errorf("%d bytes are counted for %d changes", n, changes)
		}
	})
}
