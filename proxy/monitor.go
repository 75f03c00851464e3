package proxy

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/core/reflector"
)

// monitor checks periodically who serves the resource and how it is defined, and soon after an
// upstream watch has ended, until ctx ends. It ends the session if either has changed, or if the
// upstream has refused to answer finalAttempts times in a row. It does nothing while the upstream
// does not answer.
func (res *resource) monitor(ctx context.Context, defined *definitionCheck, end context.CancelCauseFunc) {
	ticker := time.NewTicker(res.resources.opts.timeouts.origin)
	defer ticker.Stop()
	for refusals := 0; refusals < finalAttempts; {
		select {
		case <-ticker.C:
		case <-res.wake:
			pause(ctx, minDefinitionInterval)
		case <-ctx.Done():
			return
		}
		if defined.redefines(res.resources.discoverer.definition(ctx, res.gvr), time.Now()) {
			end(errRedefined)
			return
		}
		err := res.resources.discoverer.servedLocally(ctx, res.gvr.GroupVersion())
		switch {
		case err == nil:
			refusals = 0
		case apierrors.IsForbidden(err) || apierrors.IsNotFound(err):
			refusals++
		}
		if errors.Is(err, errAggregated) || refusals == finalAttempts {
			end(err)
			return
		}
	}
}

// finalAttempts is how many attempts in a row must be refused before a session ends. An API server
// that has just started refuses what it has not loaded yet, such as custom resources and
// permissions.
const finalAttempts = 4

// finalMissing is finalAttempts for a resource that the upstream does not know, which is retried
// more often: 3 to 6 s.
const finalMissing = 8

// onStatus ends a session that must not go on serving: the resource is gone, or the proxy may no
// longer read it. It releases those who wait for a session once that watches the upstream.
func (res *resource) onStatus(s *session, st reflector.Status, cancel context.CancelCauseFunc) {
	if st.Phase == reflector.Watching && !s.follows.Swap(true) {
		res.rereaders.release()
	}
	if st.Synced && st.Phase != reflector.Watching {
		res.wakeMonitor()
	}
	failed := st.Attempts > s.attempts
	s.attempts = st.Attempts
	s.unknown.Store(errors.Is(st.Err, reflector.ErrUnknownResource))
	res.logStanding(s, st.Err)
	if st.Err == nil {
		res.lastError.Store(nil)
		return
	}
	if failed {
		res.countFailure(st.Err)
	}
	text := st.Err.Error()
	res.lastError.Store(&text)
	if st.Attempts < finalAttempts || st.Attempts < finalMissing && errors.Is(st.Err, reflector.ErrUnknownResource) {
		return
	}
	for _, final := range []error{
		reflector.ErrUnknownResource, reflector.ErrMethodNotAllowed, reflector.ErrForbidden, reflector.ErrUnauthorized,
		reflector.ErrRejected, reflector.ErrEncoding,
	} {
		if errors.Is(st.Err, final) {
			cancel(st.Err)
			return
		}
	}
}

// logStanding logs when a cached resource falls behind its upstream, and when it is current again.
func (res *resource) logStanding(s *session, err error) {
	log := res.resources.log
	switch {
	case err != nil && s.behindSince.IsZero() && res.ready.Load() == s:
		s.behindSince = time.Now()
		log.Warn("a resource is behind its upstream", "resource", res.name(), "error", err.Error())
	case err == nil && !s.behindSince.IsZero():
		log.Info("a resource is current again", "resource", res.name(), "behind", time.Since(s.behindSince).Round(time.Millisecond).String())
		s.behindSince = time.Time{}
	}
}

// wakeMonitor makes the monitor check soon: the upstream ends the watches of a resource that is
// redefined.
func (res *resource) wakeMonitor() {
	select {
	case res.wake <- struct{}{}:
	default:
	}
}

// minDefinitionInterval is the delay of such a check.
const minDefinitionInterval = 2 * time.Second

// pause sleeps for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
