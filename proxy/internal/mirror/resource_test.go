package mirror

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/serve/feed"
	"github.com/weirproject/weir/internal/serve/watchcache"
)

// patience bounds every wait. It is long because these tests do not measure time.
const patience = 2 * time.Minute

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// withoutUpstream returns a Mirror that sends no request. onLog is called before each log line.
func withoutUpstream(t *testing.T, onLog func(text string)) *Mirror {
	t.Helper()
	return New(Config{
		Upstream: &rest.Config{Host: "http://upstream.invalid"}, Log: slog.New(logHook{slog.DiscardHandler, onLog}),
		Timeouts: DefaultTimeouts, OnWentBack: func() {}, WatchExcess: func() int64 { return 0 },
	})
}

// logHook is a log handler that calls a function before each line.
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
func (m *Mirror) load(t *testing.T, resource string) *Resource {
	t.Helper()
	res := newResource(m, pods.GroupVersion().WithResource(resource), settings{})
	m.byGVR[res.GVR()] = res
	res.take(input{typ: inBegin})
	s := &Session{Info: &resourceInfo{Resource: watchcache.Resource{GroupVersionResource: res.GVR(), Kind: "Kind"}, encoding: wire.JSON}, warnings: &warnings{}}
	s.ctx, s.End = context.WithCancelCause(t.Context())
	var err error
	if s.Feed, err = feed.New(res.feedConfig(s)); err != nil {
		t.Fatal(err)
	}
	res.take(input{typ: inDescribed, session: s})
	t.Cleanup(func() {
		s.End(nil)
		if s = res.State().Session; s != nil {
			s.Close()
		}
	})
	return res
}

// TestServesBeforeTracked checks that a session serves before the restore tracker is notified of
// it. Otherwise the tracker would let a watch from before a restore be forwarded while no session
// serves.
func TestServesBeforeTracked(t *testing.T) {
	m := withoutUpstream(t, func(string) {})
	res := m.load(t, "pods")
	m.Restores.mu.Lock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		res.take(input{typ: inListed})
	}()
	waitFor(t, func() bool { return res.Serving() != nil })
	if len(m.Restores.cached) != 0 {
		t.Error("the tracker knows of a session that does not serve")
	}
	m.Restores.mu.Unlock()
	<-done
	if len(m.Restores.cached) != 1 {
		t.Error("the tracker does not know of the session")
	}
}

// TestDrainOfNewSession checks that a new session serves first, and reads the time of a drain after
// that. Mirror.Drain stores that time first, and then looks for sessions. So either Drain finds the
// session, or the session finds the time.
func TestDrainOfNewSession(t *testing.T) {
	m := withoutUpstream(t, func(string) {})
	res := m.load(t, "pods")
	m.mu.Lock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		res.take(input{typ: inListed})
	}()
	waitFor(t, func() bool { return res.Serving() != nil })
	m.mu.Unlock()
	<-done
}

// waitFor waits until cond returns true.
func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !cond() {
		if pause(ctx, time.Millisecond); ctx.Err() != nil {
			t.Fatal("waited in vain")
		}
	}
}

// TestFoundRestoreEndsOthersFirst checks that a list that shows a restore ends all other sessions
// and the forwarded watches before its own session serves.
func TestFoundRestoreEndsOthersFirst(t *testing.T) {
	m := withoutUpstream(t, func(string) {})
	finder, other := m.load(t, "pods"), m.load(t, "configmaps")
	other.take(input{typ: inListed})
	m.Restores.SessionBegan(finder.GVR())
	m.Restores.SessionEnded(finder.GVR(), 100, false)
	found := 0
	m.cfg.OnWentBack = func() {
		if found++; finder.Serving() != nil {
			t.Error("the session serves before forwarded watches have ended")
		}
		if cause := context.Cause(other.State().Session.ctx); !errors.Is(cause, feed.ErrWentBack) {
			t.Errorf("the other session has not ended: %v", cause)
		}
	}
	finder.listed(finder.State().Session)
	if found != 1 || finder.Serving() == nil || finder.Serving().ctx.Err() != nil {
		t.Errorf("found %d times, serving %v", found, finder.Serving())
	}
}

// TestTrackedBeforeWithdrawn checks that an ended session still serves when runSession returns.
// When the log line about the end is written, the session is withdrawn and the restore tracker has
// been notified. If the tracker were notified later, a watch from before a restore could be
// forwarded in between.
func TestTrackedBeforeWithdrawn(t *testing.T) {
	var res *Resource
	var m *Mirror
	withdrawn := 0
	m = withoutUpstream(t, func(text string) {
		if text != "a resource is not cached" {
			return
		}
		if withdrawn++; res.State().Session != nil || res.State().phase != phaseWaiting {
			t.Errorf("while %s", res.State().phase)
		}
		if !m.Restores.isUnread(res.GVR()) {
			t.Error("the tracker does not know that the session has ended")
		}
	})
	res = m.load(t, "pods")
	s := res.State().Session
	res.listed(s)
	m.Restores.WentBack() // another resource finds the restore
	m.Restores.SessionBegan(res.GVR())
	s.End(feed.ErrWentBack)
	in := res.runSession(s)
	if in.typ != inEnded || !errors.Is(in.err, feed.ErrWentBack) || res.Serving() != s {
		t.Errorf("%+v", in)
	}
	if a, ok := res.take(in).(sleep); !ok || withdrawn != 1 {
		t.Errorf("%v, withdrawn %d times", a, withdrawn)
	}
}

// TestTwoFindRestore checks that resources that find a restore at the same time end each other's
// sessions without a deadlock.
func TestTwoFindRestore(t *testing.T) {
	m := withoutUpstream(t, func(string) {})
	var all []*Resource
	for _, name := range []string{"pods", "configmaps", "secrets"} {
		all = append(all, m.load(t, name))
	}
	var found sync.WaitGroup
	// This lock stops every resource before it ends the sessions of the others, until all resources
	// have found the restore.
	m.Restores.mu.Lock()
	for _, res := range all {
		found.Go(func() { res.take(input{typ: inRefused, err: feed.ErrWentBack}) })
	}
	for _, res := range all {
		waitFor(t, func() bool { return errors.Is(context.Cause(res.State().Session.ctx), feed.ErrWentBack) })
	}
	m.Restores.mu.Unlock()
	found.Wait()
}

// TestReadsLongAfterRedefinition checks lists while the proxy rereads a redefined resource. A list
// of many objects gets 429 for rereadTime after the redefinition, and is forwarded after that. A
// list of few objects is forwarded immediately.
func TestReadsLongAfterRedefinition(t *testing.T) {
	m := withoutUpstream(t, func(string) {})
	for _, tt := range []struct {
		objects int
		before  time.Duration
		waits   bool
	}{{MinProofObjects, time.Second, true}, {MinProofObjects, rereadTime, false}, {MinProofObjects - 1, time.Second, false}} {
		res := newResource(m, pods, settings{})
		st := newState(pods, res.settings)
		st.phase, st.objects, st.redefined = phaseWaiting, tt.objects, time.Now().Add(-tt.before)
		res.published.Store(st)
		m.byGVR[pods] = res
		rd, _ := m.Read(strictly(t, "/api/v1/pods?resourceVersion=0"), false)
		if (rd != nil) != tt.waits || rd != nil && !apierrors.IsTooManyRequests(rd.lost(st)) {
			t.Errorf("%+v: %+v", tt, rd)
		}
	}
}

// TestNotesAreLogged checks that a log line names the resource, and the error or for how long the
// resource was behind.
func TestNotesAreLogged(t *testing.T) {
	var log bytes.Buffer
	m := withoutUpstream(t, func(string) {})
	m.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	res := newResource(m, pods, settings{})
	res.log(note{text: "one", err: errors.New("broken")})
	res.log(note{text: "two", behind: 1500 * time.Millisecond})
	want := []string{"level=WARN msg=one resource=pods error=broken", "level=INFO msg=two resource=pods behind=1.5s"}
	for i, line := range strings.Split(strings.TrimSpace(log.String()), "\n") {
		if !strings.Contains(line, want[i]) {
			t.Errorf("%q", line)
		}
	}
}
