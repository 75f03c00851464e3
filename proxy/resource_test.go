package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/serve/feed"
	"github.com/weirproject/weir/internal/serve/watchcache"
)

// withoutUpstream returns resources that send no request. onLog is called before each line of the
// log.
func withoutUpstream(t *testing.T, onLog func(text string)) *resources {
	t.Helper()
	rs, err := newResources(Options{timeouts: defaultTimeouts, Log: slog.New(logHook{slog.DiscardHandler, onLog})}, &rest.Config{Host: "http://upstream.invalid"}, discoverer{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rs.workers.Close)
	rs.initSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{}, byResource)
	rs.onWentBack = func() {}
	return rs
}

// logHook is a log that calls a function before each line.
type logHook struct {
	slog.Handler
	before func(text string)
}

func (logHook) Enabled(context.Context, slog.Level) bool { return true }

func (h logHook) Handle(_ context.Context, r slog.Record) error {
	h.before(r.Message)
	return nil
}

// load adds a resource whose session is about to list. It sends no request.
func (rs *resources) load(t *testing.T, resource string) *resource {
	t.Helper()
	res := newResource(rs, podsResource.GroupVersion().WithResource(resource), settings{})
	rs.byGVR[res.gvr] = res
	res.take(input{typ: inBegin})
	s := &session{info: &resourceInfo{Resource: watchcache.Resource{GroupVersionResource: res.gvr, Kind: "Kind"}, encoding: wire.JSON}, warnings: &warnings{}}
	s.ctx, s.end = context.WithCancelCause(t.Context())
	var err error
	if s.Feed, err = feed.New(res.feedConfig(s)); err != nil {
		t.Fatal(err)
	}
	res.take(input{typ: inDescribed, session: s})
	t.Cleanup(func() {
		s.end(nil)
		if s = res.state().session; s != nil {
			s.Close()
		}
	})
	return res
}

// TestServesBeforeTracked: a session serves before the tracker learns of it. Otherwise the tracker
// would let a watch from before a restore be forwarded while no session serves.
func TestServesBeforeTracked(t *testing.T) {
	rs := withoutUpstream(t, func(string) {})
	res := rs.load(t, "pods")
	rs.restoreTracker.mu.Lock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		res.take(input{typ: inListed})
	}()
	waitFor(t, func() bool { return res.serving() != nil })
	if len(rs.restoreTracker.cached) != 0 {
		t.Error("the tracker knows of a session that does not serve")
	}
	rs.restoreTracker.mu.Unlock()
	<-done
	if len(rs.restoreTracker.cached) != 1 {
		t.Error("the tracker does not know of the session")
	}
}

// TestDrainOfNewSession: a session serves before it reads when watches must have ended. A drain
// stores the time first, and then looks for sessions, so one of the two finds the other.
func TestDrainOfNewSession(t *testing.T) {
	rs := withoutUpstream(t, func(string) {})
	res := rs.load(t, "pods")
	rs.mu.Lock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		res.take(input{typ: inListed})
	}()
	waitFor(t, func() bool { return res.serving() != nil })
	rs.mu.Unlock()
	<-done
}

// waitFor waits until cond holds.
func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	for !cond() {
		if pause(ctx, time.Millisecond); ctx.Err() != nil {
			t.Fatal("waited in vain")
		}
	}
}

// TestFoundRestoreEndsOthersFirst: a list that shows a restore ends all other sessions and the
// forwarded watches before its own session serves.
func TestFoundRestoreEndsOthersFirst(t *testing.T) {
	rs := withoutUpstream(t, func(string) {})
	finder, other := rs.load(t, "pods"), rs.load(t, "configmaps")
	other.take(input{typ: inListed})
	rs.restoreTracker.sessionBegan(finder.gvr)
	rs.restoreTracker.sessionEnded(finder.gvr, 100, false)
	found := 0
	rs.onWentBack = func() {
		if found++; finder.serving() != nil {
			t.Error("the session serves before forwarded watches have ended")
		}
		if cause := context.Cause(other.state().session.ctx); !errors.Is(cause, feed.ErrWentBack) {
			t.Errorf("the other session has not ended: %v", cause)
		}
	}
	finder.listed(finder.state().session)
	if found != 1 || finder.serving() == nil || finder.serving().ctx.Err() != nil {
		t.Errorf("found %d times, serving %v", found, finder.serving())
	}
}

// TestTrackedBeforeWithdrawn: the tracker learns of the end of a session before the session is
// withdrawn, and what the log says of the end comes after both. Otherwise a watch from before a
// restore would be forwarded in between.
func TestTrackedBeforeWithdrawn(t *testing.T) {
	var res *resource
	var rs *resources
	withdrawn := 0
	rs = withoutUpstream(t, func(text string) {
		if text != "a resource is not cached" {
			return
		}
		if withdrawn++; res.state().session != nil || res.state().phase != phaseWaiting {
			t.Errorf("while %s", res.state().phase)
		}
		if !rs.restoreTracker.isUnread(res.gvr) {
			t.Error("the tracker does not know that the session has ended")
		}
	})
	res = rs.load(t, "pods")
	s := res.state().session
	res.listed(s)
	rs.restoreTracker.wentBack() // as another resource does
	rs.restoreTracker.sessionBegan(res.gvr)
	s.end(feed.ErrWentBack)
	in := res.runSession(s)
	if in.typ != inEnded || !errors.Is(in.err, feed.ErrWentBack) || res.serving() != s {
		t.Errorf("%+v", in)
	}
	if a, ok := res.take(in).(sleep); !ok || withdrawn != 1 {
		t.Errorf("%v, withdrawn %d times", a, withdrawn)
	}
}

// TestTwoFindRestore: resources that find a restore at the same time end each other's sessions, and
// do not wait for each other.
func TestTwoFindRestore(t *testing.T) {
	rs := withoutUpstream(t, func(string) {})
	var all []*resource
	for _, name := range []string{"pods", "configmaps", "secrets"} {
		all = append(all, rs.load(t, name))
	}
	var found sync.WaitGroup
	rs.restoreTracker.mu.Lock() // so that none ends the others before each has found it
	for _, res := range all {
		found.Go(func() { res.take(input{typ: inRefused, err: feed.ErrWentBack}) })
	}
	for _, res := range all {
		waitFor(t, func() bool { return errors.Is(context.Cause(res.state().session.ctx), feed.ErrWentBack) })
	}
	rs.restoreTracker.mu.Unlock()
	found.Wait()
}

// TestReadsLongAfterRedefinition: a list of many objects gets 429 while a resource is reread, for
// rereadTime after it was redefined. Afterwards it is forwarded. Lists of a few objects are
// forwarded immediately.
func TestReadsLongAfterRedefinition(t *testing.T) {
	rs := withoutUpstream(t, func(string) {})
	at, err := url.Parse("/api/v1/pods?resourceVersion=0")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		objects int
		before  time.Duration
		waits   bool
	}{{minProofObjects, time.Second, true}, {minProofObjects, rereadTime, false}, {minProofObjects - 1, time.Second, false}} {
		res := newResource(rs, podsResource, settings{})
		st := newState(res.settings)
		st.phase, st.objects, st.redefined = phaseWaiting, tt.objects, time.Now().Add(-tt.before)
		res.published.Store(st)
		rs.byGVR[podsResource] = res
		rd := rs.read(strict(at), false)
		if (rd != nil) != tt.waits || rd != nil && !apierrors.IsTooManyRequests(rd.lost(st)) {
			t.Errorf("%+v: %+v", tt, rd)
		}
	}
}

// TestNotesAreLogged: a line of the log names the resource, and what was wrong, or for how long.
func TestNotesAreLogged(t *testing.T) {
	log := &logBuffer{}
	rs := withoutUpstream(t, func(string) {})
	rs.log = slog.New(slog.NewTextHandler(log, nil))
	res := newResource(rs, podsResource, settings{})
	res.log(note{text: "one", err: errors.New("broken")})
	res.log(note{text: "two", behind: 1500 * time.Millisecond})
	want := []string{"level=WARN msg=one resource=pods error=broken", "level=INFO msg=two resource=pods behind=1.5s"}
	for i, line := range log.lines("") {
		if !strings.Contains(line, want[i]) {
			t.Errorf("%q", line)
		}
	}
}
