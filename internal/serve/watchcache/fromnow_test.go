package watchcache

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/testing/check"
)

// eager is a client that makes a change as soon as it has the headers of its watch.
type eager struct {
	*recorder
	change func()
}

func (e *eager) Flush() {
	if do := e.change; do != nil {
		e.change = nil
		do()
	}
	e.recorder.Flush()
}

// TestWatchFromNow checks that a client receives all changes that are made after it has received
// the headers of its watch. It tries all kinds of start: at the current state, at a
// resourceVersion, or at any version.
func TestWatchFromNow(t *testing.T) {
	for _, query := range []string{
		"sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
		"sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=0",
		"sendInitialEvents=false&resourceVersionMatch=NotOlderThan&fieldSelector=spec.color%3Dred",
		"sendInitialEvents=false&resourceVersionMatch=NotOlderThan&labelSelector=color!%3Dblue",
		"sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=100",
		"resourceVersion=100",
		"resourceVersion=0",
		"",
	} {
		t.Run(query, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tc := newTestCache(t, 1<<20, nil)
				defer tc.close()
				e := &eager{recorder: newRecorder(), change: func() { tc.put("ns", "late", "red") }}
				defer tc.watch(query, e)()
				synctest.Wait()
				if got, want := e.events(t), []string{"ADDED ns/late@101"}; !slices.Equal(got, want) {
					t.Errorf("told %q, not %q", got, want)
				}
			})
		})
	}
}

// TestOpenWatchDoesNotExpire checks that a watch whose headers were sent does not expire because of
// later changes, even with a short log.
func TestOpenWatchDoesNotExpire(t *testing.T) {
	for _, query := range []string{"resourceVersion=100", "resourceVersion=100&fieldSelector=spec.color%3Dred"} {
		synctest.Test(t, func(t *testing.T) {
			tc := newTestCache(t, 1<<10, nil)
			defer tc.close()
			const n = 1000
			e := &eager{recorder: newRecorder(), change: func() {
				for range n {
					tc.put("ns", "busy", "red")
				}
			}}
			defer tc.watch(query, e)()
			synctest.Wait()
			if got := e.events(t); len(got) == 0 || got[len(got)-1] != fmt.Sprintf("ADDED ns/busy@%d", 100+n) {
				t.Errorf("%q: told %q", query, got)
			}
		})
	}
}

// TestFutureIsWaitedForOutside checks that a watch from a future resourceVersion does not block the
// start of other watches, and receives the changes after that resourceVersion.
func TestFutureIsWaitedForOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := newTestCache(t, 1<<20, nil)
		defer tc.close()
		at := &url.URL{RawQuery: fmt.Sprintf("watch=1&resourceVersion=%d", tc.rv+1)}
		o, err := request.ParseOptions(at.Query())
		check.NoError(t, err)
		w, begun, done := newRecorder(), make(chan struct{}), make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer close(done)
			rest := tc.cache.Begin(w, newRequest(at.RawQuery).WithContext(ctx), &request.Request{Info: request.Info{Verb: "watch"}, Options: *o, Accept: request.ParseAccept(nil)})
			close(begun)
			rest()
		}()
		synctest.Wait()
		select {
		case <-begun:
		default:
			t.Error("the beginning is waited for")
		}
		tc.put("ns", "a", "red")
		b := tc.put("ns", "b", "red").rv
		synctest.Wait()
		cancel()
		<-done
		if got, want := w.events(t), []string{fmt.Sprintf("ADDED ns/b@%d", b)}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}
