package mirror

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/serve/feed"
	"github.com/weirproject/weir/internal/serve/watchcache"
)

// Session is one run of the feed of a resource, which lists and watches the resource and serves its
// cache. It ends when only a new session can represent the upstream.
type Session struct {
	*feed.Feed
	Info     *resourceInfo
	warnings *warnings
	begun    time.Time
	ctx      context.Context
	End      context.CancelCauseFunc // ends ctx; only the first cause is recorded
}

// newSession asks the upstream to describe the resource and returns a session, which lasts until
// ctx ends. The caller must run and close it.
func (res *Resource) newSession(ctx context.Context) (_ *Session, err error) {
	info, err := res.mirror.discoverer.discover(ctx, res.GVR())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", res.GVR(), err)
	}
	s := &Session{Info: info, warnings: &warnings{}, begun: time.Now()}
	s.ctx, s.End = context.WithCancelCause(ctx)
	if s.Feed, err = feed.New(res.feedConfig(s)); err != nil {
		s.End(err)
		return nil, err
	}
	return s, nil
}

// feedConfig returns the configuration of a session's feed.
func (res *Resource) feedConfig(s *Session) feed.Config {
	upstream := rest.CopyConfig(res.mirror.cfg.Upstream)
	upstream.Wrap(s.warnings.wrap)
	if upstream.WarningHandler == nil && upstream.WarningHandlerWithContext == nil {
		// do not log the warnings: s.warnings passes them to the proxy's clients
		upstream.WarningHandler = rest.NoWarnings{}
	}
	opts := &res.mirror.cfg
	return feed.Config{
		Upstream: upstream, Encoding: s.Info.encoding, LogBytes: opts.LogBytes, ProofTimeout: opts.Timeouts.Proof,
		Cache: watchcache.Config{
			Resource: s.Info.Resource, BookmarkInterval: opts.BookmarkInterval, MinWatch: opts.MinWatch, ExpireLate: opts.ExpireSlowWatches,
			LabelSets: true, Flush: res.mirror.flush, Closed: errReread,
		},
		Reflector: reflector.Config{Name: res.GVR().String(), Server: &res.mirror.server, OnStatus: func(st reflector.Status) {
			res.take(input{typ: inStatus, err: st.Err, watching: st.Phase == reflector.Watching, synced: st.Synced, attempts: st.Attempts})
		}},
		Reserve:  res.reserve,
		OnListed: func() { res.listed(s) },
		OnRefuse: res.Refuse,
		Stats:    &res.FeedStats, Requests: &res.mirror.Stats,
	}
}

// canServe reports whether the session can answer the read as kube-apiserver would.
func (s *Session) canServe(rq *request.Request, indents bool) bool {
	if !s.serves(rq) || !s.encodes(rq, indents) {
		return false
	}
	if rq.Fields != nil {
		for _, f := range rq.Fields.Requirements() {
			if !s.Cache().SupportsField(f.Field) || f.Field == "metadata.namespace" && !s.Info.Namespaced {
				return false
			}
		}
	}
	return rq.ExactVersion() == 0 || s.Cache().CanResumeFrom(rq.ResourceVersion)
}

// encodes reports whether the session can encode its objects in a form that the read accepts.
// indents says that kube-apiserver would send the client indented JSON.
func (s *Session) encodes(rq *request.Request, indents bool) bool {
	form := "PartialObjectMetadata"
	if rq.Verb == "list" {
		form = "PartialObjectMetadataList"
	}
	if !rq.Accept.IsStrict(form) {
		return false
	}
	indents = indents && rq.Verb != "watch"
	if enc, ok := s.Cache().Encoding(rq.Accept); !ok || (s.Info.UnknownFields || indents) && enc != wire.Protobuf {
		return false
	}
	return s.Info.Custom || s.Info.encoding != wire.JSON || !rq.Accept.WantsProtobuf()
}

// MinProofObjects is the minimum number of objects of a resource whose consistent LISTs are not
// forwarded. A LIST of fewer objects costs the upstream no more than the query that proves the
// session to be current.
const MinProofObjects = 100

func (s *Session) isSmall() bool { return s.Store().Len() < MinProofObjects }

// serves reports whether kube-apiserver serves the path of the read for a resource of this scope.
func (s *Session) serves(rq *request.Request) bool {
	if s.Info.Namespaced {
		return rq.Name == "" || rq.Namespace != ""
	}
	return rq.Namespace == ""
}

// versionTimeout is how long a read of a small resource waits for a resourceVersion that the client
// may have received from another replica. If the resource does not change, the session reaches the
// version only with its next bookmark, which may take longer. A read of a large resource therefore
// proves that the session is current instead. A read of a small resource is forwarded after
// versionTimeout.
const versionTimeout = time.Second

// waitForVersion blocks until the session has reached the version that the read needs, and reports
// whether it has.
func (s *Session) waitForVersion(ctx context.Context, rq *request.Request) bool {
	if rq.MinVersion() <= s.Version() {
		return true
	}
	// The upstream cannot read a continue token of the proxy, so the read cannot be forwarded.
	if rq.Continue != nil {
		return s.ProveCurrent(ctx) && rq.MinVersion() <= s.Version()
	}
	if !s.isSmall() {
		return s.ProveVersion(ctx, rq.MinVersion())
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	return s.WaitVersion(ctx, rq.MinVersion()) == nil
}

// AddHeaders adds the upstream's warnings to the header of an answer. It also sets the header Age:
// the time since the session was last known to have the upstream's state, in seconds.
func (s *Session) AddHeaders(h http.Header) {
	s.warnings.add(h)
	h.Set("Age", strconv.FormatInt(int64(max(time.Since(s.LastHeard()), 0)/time.Second), 10))
}

// maxWarnings bounds the warnings of one response that the proxy stores.
const maxWarnings = 8

// warnings contains the warnings of the upstream's last response to the session's LIST or WATCH.
// Most warnings are about deprecated versions. The proxy adds them to its own responses. The zero
// value is empty. warnings is safe for concurrent use.
type warnings struct{ values atomic.Pointer[[]string] }

// wrap returns a RoundTripper that records the warnings of successful responses.
func (w *warnings) wrap(next http.RoundTripper) http.RoundTripper { return &warningTransport{next, w} }

type warningTransport struct {
	http.RoundTripper
	warnings *warnings
}

func (t *warningTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusOK {
		t.warnings.set(resp.Header.Values("Warning"))
	}
	return resp, err
}

// WrappedRoundTripper returns the wrapped transport. Kubernetes libraries use it to close idle
// connections.
func (t *warningTransport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

func (w *warnings) set(values []string) {
	w.values.Store(new(slices.Clone(values[:min(len(values), maxWarnings)])))
}

func (w *warnings) add(h http.Header) {
	if values := w.values.Load(); values != nil {
		for _, text := range *values {
			h.Add("Warning", text)
		}
	}
}
