package proxy

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
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
	begun    time.Time
	ctx      context.Context
	end      context.CancelCauseFunc // ends ctx; the first cause counts
}

// newSession describes the resource and returns a session, which lasts until ctx ends. The caller
// must run and close it.
func (res *resource) newSession(ctx context.Context) (_ *session, err error) {
	info, err := res.resources.discoverer.discover(ctx, res.gvr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", res.gvr, err)
	}
	s := &session{info: info, warnings: &warnings{}, begun: time.Now()}
	s.ctx, s.end = context.WithCancelCause(ctx)
	if s.Feed, err = feed.New(res.feedConfig(s)); err != nil {
		s.end(err)
		return nil, err
	}
	return s, nil
}

// feedConfig returns the configuration of a session's feed.
func (res *resource) feedConfig(s *session) feed.Config {
	upstream := rest.CopyConfig(res.resources.upstream)
	upstream.Wrap(s.warnings.wrap)
	if upstream.WarningHandler == nil && upstream.WarningHandlerWithContext == nil {
		upstream.WarningHandler = rest.NoWarnings{} // the proxy's clients get them
	}
	opts := &res.resources.opts
	return feed.Config{
		Upstream: upstream, Encoding: s.info.encoding, LogBytes: opts.LogBytes, ProofTimeout: opts.timeouts.proof,
		Cache: watchcache.Config{
			Resource: s.info.Resource, BookmarkInterval: opts.BookmarkInterval, MinWatch: opts.MinWatch, ExpireLate: opts.ExpireSlowWatches,
			LabelSets: true, Flush: res.resources.flush, Workers: res.resources.workers, BuffersWrites: true, Closed: errReread,
		},
		Reflector: reflector.Config{Name: res.gvr.String(), Server: &res.resources.server, OnStatus: func(st reflector.Status) {
			res.take(input{typ: inStatus, err: st.Err, watching: st.Phase == reflector.Watching, synced: st.Synced, attempts: st.Attempts})
		}},
		Reserve:  res.reserve,
		OnListed: func() { res.listed(s) },
		OnRefuse: func(why error) { res.take(input{typ: inRefused, err: why}) },
		Stats:    &res.feedStats, Requests: &res.resources.stats,
	}
}

// canServe reports whether the session can answer the read as kube-apiserver would.
func (s *session) canServe(rq *request.Request, indents bool) bool {
	if !s.serves(rq) || !s.encodes(rq, indents) {
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

// encodes reports whether the session has the form that the read accepts. indents says that JSON
// would be indented for the client.
func (s *session) encodes(rq *request.Request, indents bool) bool {
	form := "PartialObjectMetadata"
	if rq.Verb == "list" {
		form = "PartialObjectMetadataList"
	}
	if !rq.Accept.IsStrict(form) {
		return false
	}
	indents = indents && rq.Verb != "watch"
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

// addHeaders adds the upstream's warnings to the head of an answer, and how long ago the session
// was last shown to be the upstream's state.
func (s *session) addHeaders(h http.Header) {
	s.warnings.add(h)
	h.Set("Age", strconv.FormatInt(int64(max(time.Since(s.LastHeard()), 0)/time.Second), 10))
}
