package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/serve/feed"
	"github.com/weirproject/weir/internal/serve/watchcache"
)

// session is the life of one feed of a resource, until only a new one helps.
type session struct {
	*feed.Feed
	info     *resourceInfo
	warnings *warnings
	follows  atomic.Bool // it has watched the upstream: before that, nothing can be proven
	// unknown means that the upstream has answered last that it has no such resource, which may have
	// been deleted. Until it answers otherwise, or the session ends after finalMissing such answers,
	// reads are forwarded.
	unknown atomic.Bool
	// attempts is how many of the reflector's had failed in a row when onStatus was called last.
	attempts int
	// behindSince is when the resource fell behind its upstream. Zero: it is current. onStatus has it.
	behindSince time.Time
	begun       time.Time
	end         context.CancelCauseFunc
}

// runSession runs one session. The error says why it ended.
func (res *resource) runSession(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	info, err := res.resources.discoverer.discover(ctx, res.gvr)
	if err != nil {
		return fmt.Errorf("%s: %w", res.gvr, err)
	}
	s, err := res.newSession(cancel, info)
	if err != nil {
		return err
	}
	defer s.Close()
	defer res.ready.Store(nil)
	res.sessions.Add(1)
	res.running.Store(s)
	defer res.running.Store(nil)
	var monitoring sync.WaitGroup
	check := newDefinitionCheck(&res.definitions, info.definition, res.resources.opts.timeouts.settle, s.begun)
	monitoring.Go(func() { res.monitor(ctx, check, cancel) })
	err = s.Run(ctx)
	cancel(err)
	monitoring.Wait()
	res.sessionEnded(s, context.Cause(ctx))
	if err != nil {
		return err
	}
	return context.Cause(ctx)
}

// newSession makes a session, which end ends. The caller must close it.
func (res *resource) newSession(end context.CancelCauseFunc, info *resourceInfo) (_ *session, err error) {
	s := &session{info: info, warnings: &warnings{}, begun: time.Now(), end: end}
	upstream := rest.CopyConfig(res.resources.upstream)
	upstream.Wrap(s.warnings.wrap)
	if upstream.WarningHandler == nil && upstream.WarningHandlerWithContext == nil {
		upstream.WarningHandler = rest.NoWarnings{} // the proxy's clients get them
	}
	opts := &res.resources.opts
	s.Feed, err = feed.New(feed.Config{
		Upstream: upstream, Encoding: info.encoding, LogBytes: opts.LogBytes, ProofTimeout: opts.timeouts.proof,
		Cache: watchcache.Config{
			Resource: info.Resource, BookmarkInterval: opts.BookmarkInterval, MinWatch: opts.MinWatch, ExpireLate: opts.ExpireSlowWatches,
			LabelSets: true, Flush: res.resources.flush, Workers: res.resources.workers, BuffersWrites: true, Closed: errReread,
		},
		Reflector: reflector.Config{
			Name: res.gvr.String(), Server: &res.resources.server, OnStatus: func(st reflector.Status) { res.onStatus(s, st, end) },
		},
		Reserve:  res.reserve,
		OnListed: func() { res.markReady(s) },
		OnRefuse: func(why error) { res.endSession(end, why) },
		Stats:    &res.feedStats, Requests: &res.resources.stats,
	})
	return s, err
}

// sessionEnded notes why a session has ended. That decides how its watches end, and how the next
// one begins.
func (res *resource) sessionEnded(s *session, cause error) {
	restores := &res.resources.restoreTracker
	wentBack, aggregated := errors.Is(cause, feed.ErrWentBack), errors.Is(cause, errAggregated)
	restores.sessionEnded(res.gvr, s.Version(), wentBack)
	if aggregated {
		restores.replaced(res.gvr)
	}
	wasReady := res.ready.Load() == s
	if wasReady {
		res.objects.Store(int64(s.Store().Len()))
	}
	if errors.Is(cause, errRedefined) { // after storing the objects, which rereads looks at
		res.redefined.Store(time.Now().UnixNano())
	}
	if wentBack || aggregated {
		res.ready.Store(nil)
		s.Cache().Expire()
	}
	if !wasReady && !res.stopping.Load() {
		res.failedSessions.Add(1)
	}
}

// endSession ends a session. If the upstream went back, the sessions of all other resources end
// too, and all watches that were forwarded: they may come back only when the same resourceVersions
// exist again, and then nothing shows what was lost. A resource has no session for a while if its
// last one ended for another reason, for instance because an upstream that has just started does
// not know it yet.
func (res *resource) endSession(cancel context.CancelCauseFunc, why error) {
	cancel(why)
	if errors.Is(why, feed.ErrWentBack) {
		res.othersWentBack()
	}
}

// othersWentBack ends what goes on from before a restore that this resource has found out.
func (res *resource) othersWentBack() {
	all := res.resources.all()
	for _, other := range all {
		if s := other.running.Load(); s != nil {
			res.resources.restoreTracker.observe(s.Version())
		}
	}
	res.resources.restoreTracker.wentBack()
	for _, other := range all {
		if s := other.running.Load(); s != nil && other != res {
			s.end(feed.ErrWentBack)
		}
	}
	res.resources.onWentBack()
}

func (res *resource) markReady(s *session) {
	res.resources.initSeconds.WithLabelValues(res.gvr.Group, res.gvr.Resource).Observe(time.Since(s.begun).Seconds())
	res.lastError.Store(nil)
	res.failures.Store(0)
	res.notReady.Store(int32(stateLoading)) // for when it ends
	// A session may have ended for another reason before it could find a restore, such as another
	// version of kube-apiserver.
	if res.resources.restoreTracker.revealsRestore(res.gvr, s.Version()) {
		res.othersWentBack()
	}
	res.ready.Store(s)
	res.readySessions.Add(1) // after storing the session: it has the replica ready
	res.redefined.Store(0)
	// This comes after storing the session: between the two, none resumes from before.
	res.resources.restoreTracker.sessionBegan(res.gvr)
	// This is checked after storing the session, as drain looks for sessions after storing the time.
	if end := res.resources.drainBy.Load(); end != nil {
		s.Cache().Drain(time.Until(*end))
	}
	res.resources.log.Info("a resource is cached", "resource", res.name(), "objects", s.Store().Len(), "resourceVersion", s.Store().ResourceVersion())
}

// canServe reports whether the session can answer the read as kube-apiserver would.
func (s *session) canServe(r *http.Request, rq *request.Request) bool {
	if !s.serves(rq) || !s.encodes(r, rq) {
		return false
	}
	if rq.Fields != nil {
		for _, f := range rq.Fields.Requirements() {
			if !s.Cache().SupportsField(f.Field) || f.Field == "metadata.namespace" && !s.info.Namespaced {
				return false
			}
		}
	}
	return rq.ExactVersion() == 0 || s.Cache().CanResumeFrom(rq.ResourceVersion)
}

// encodes reports whether the session has the form that the read accepts.
func (s *session) encodes(r *http.Request, rq *request.Request) bool {
	form := "PartialObjectMetadata"
	if rq.Verb == "list" {
		form = "PartialObjectMetadataList"
	}
	if !rq.Accept.IsStrict(form) {
		return false
	}
	indents := rq.Verb != "watch" && ofTerminal(r)
	if enc, ok := s.Cache().Encoding(rq.Accept); !ok || (s.info.unknownFields || indents) && enc != wire.Protobuf {
		return false
	}
	return s.info.Custom || s.info.encoding != wire.JSON || !rq.Accept.WantsProtobuf()
}

// minProofObjects is the number of objects below which a read is forwarded: it costs the upstream
// no more than the query that proves the session to be current.
const minProofObjects = 100

// isSmall reports whether the upstream can answer a LIST of the resource as easily as a query that
// proves the session to be current.
func (s *session) isSmall() bool { return s.Store().Len() < minProofObjects }

// serves reports whether kube-apiserver serves such a path for a resource of this scope.
func (s *session) serves(rq *request.Request) bool {
	if s.info.Namespaced {
		return rq.Name == "" || rq.Namespace != ""
	}
	return rq.Namespace == ""
}

// versionTimeout is how long a read of a small resource waits for a resourceVersion that another
// replica may have got. An unchanged resource may take until the next bookmark, so for a large one
// freshness is proven, and reads of a small one are forwarded.
const versionTimeout = time.Second

// waitForVersion blocks until the session has reached the version that the read needs, and reports
// whether it has.
func (s *session) waitForVersion(ctx context.Context, rq *request.Request) bool {
	if rq.MinVersion() <= s.Version() {
		return true
	}
	if rq.Continue != nil { // unknown to the upstream, so the read cannot be forwarded
		return s.ProveCurrent(ctx) && rq.MinVersion() <= s.Version()
	}
	if !s.isSmall() {
		return s.ProveVersion(ctx, rq.MinVersion())
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	return s.WaitVersion(ctx, rq.MinVersion()) == nil
}
