package mirror

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/serve/watchcache"
)

// Reason says why the cache does not answer a read, so that the read is forwarded.
type Reason uint8

const (
	// NoReason means that the cache answers the read.
	NoReason Reason = iota
	// NotCached means that the resource has no session, or that the upstream may have deleted the
	// resource.
	NotCached
	// Cheap means that a consistent read costs the upstream no more than a proof that the session is
	// current, or that Config.ForwardConsistent is set.
	Cheap
	// Unsupported means that kube-apiserver would not answer the read as the session can: in another
	// form such as a Table, by another field, or from a version that the session lacks.
	Unsupported
	// Stale means that the session is not proven current, or did not reach a version in time.
	Stale
	// Reasons is the number of reasons.
	Reasons
)

// Read is a read that the cache may answer. Only one goroutine uses it.
type Read struct {
	*request.Request
	mirror   *Mirror
	resource *Resource // nil: the resource is not cached
	indents  bool      // kube-apiserver would send the client indented JSON
	// unproven is NoReason, unless the session needs a proof that it is current. It then says why the
	// read is forwarded if a proof is too expensive.
	unproven Reason
}

// Read returns a Read if the cache may answer rq, or nil and the reason if rq must be forwarded. If
// the resource is not cached but can be, it returns a Read and NotCached. indents says that
// kube-apiserver would send the client indented JSON.
func (m *Mirror) Read(rq *request.Request, indents bool) (*Read, Reason) {
	rd := &Read{Request: rq, mirror: m, resource: m.Find(rq.GVR()), indents: indents}
	if rd.resource == nil && !m.CanAdd(rq.GVR()) {
		return nil, NotCached
	}
	switch {
	case rq.Consistent() && (rq.Name != "" || !m.skipsProof[rq.GVR().GroupResource()]):
		rd.unproven = Cheap
	case rd.tooStale():
		rd.unproven = Stale
	}
	if why := rd.proofRefused(); why != NoReason {
		return nil, why
	}
	if rd.resource == nil {
		return rd, NotCached
	}
	st := rd.resource.read()
	switch s := st.serving(); {
	case s != nil && st.unknown, s == nil && rd.lost(st) == nil:
		return nil, NotCached
	case rd.lost(st) == nil && !s.canServe(rq, indents):
		return nil, Unsupported
	}
	return rd, NoReason
}

// IsCached reports whether the resource is cached, or is being loaded.
func (rd *Read) IsCached() bool { return rd.resource != nil }

// Add starts caching the resource, for later reads.
func (rd *Read) Add() { rd.mirror.add(rd.GVR()) }

// Watch counts a watch of the resource until the caller calls leave.
func (rd *Read) Watch() (leave func()) {
	rd.resource.watchers.Add(1)
	return func() { rd.resource.watchers.Add(-1) }
}

// RefusesToken reports whether the proxy must forward a read that has a continue token of the
// proxy, and that the cache can no longer serve. The proxy must forward the read if the resource is
// cached and the read accepts only encodings that the cache lacks. The upstream then refuses the
// read before it reads the token.
func (m *Mirror) RefusesToken(rq *request.Request, indents bool) bool {
	res := m.Find(rq.GVR())
	if res == nil {
		return false
	}
	s := res.read().serving()
	return s != nil && !s.encodes(rq, indents)
}

// Outcome says how a read is answered: from Session, unless Err is set.
type Outcome struct {
	Session *Session
	Err     error
	// Forward is NoReason, unless the read is forwarded. The client then gets Err, if it is set and
	// the upstream does not answer in time.
	Forward Reason
}

// Wait waits until the session is fresh enough for the read. The resource must be cached.
func (rd *Read) Wait(ctx context.Context) Outcome {
	proof, cancel := context.WithTimeout(ctx, rd.mirror.cfg.Timeouts.Proof)
	defer cancel()
	rd.awaitReread(proof)
	st := rd.resource.State()
	s, err := st.serving(), rd.lost(st)
	if from := rd.ExactVersion(); rd.hasFutureVersion(s) && rd.mirror.LostFrom(rd.GVR(), from) == nil {
		err = s.checkFutureVersion(ctx, from)
	}
	switch {
	case err != nil:
		return Outcome{Session: s, Err: err}
	case s == nil:
		return Outcome{Forward: NotCached}
	case rd.unproven != NoReason && s.isSmall():
		return Outcome{Forward: rd.unproven}
	case rd.unproven != NoReason && !s.ProveCurrent(proof):
		return Outcome{Forward: Stale}
	case !s.waitForVersion(ctx, rd.Request):
		got := Outcome{Session: s, Err: watchcache.TooLargeError(rd.MinVersion(), s.Version())}
		if rd.Continue == nil {
			got.Forward = Stale
		}
		return got
	case !s.canServe(rd.Request, rd.indents): // the log may have dropped the version in the meantime
		return Outcome{Forward: Unsupported}
	}
	return Outcome{Session: s}
}

// proofRefused returns why a read that needs a proof is forwarded, or NoReason if the read waits
// for the proof or needs none. The read is forwarded if it costs the upstream no more than a proof.
// With Config.ForwardConsistent, every consistent read is forwarded. A read of a resource that is
// not cached waits, so that the caller adds the resource. A read of a resource that is being reread
// waits too (see lost), but not of any other resource without a serving session.
func (rd *Read) proofRefused() Reason {
	if rd.unproven == NoReason || rd.Consistent() && (rd.mirror.cfg.ForwardConsistent || rd.Name != "" || smallPage(rd.Request)) {
		return rd.unproven
	}
	if rd.resource == nil || rd.resource.rereads(rd.resource.State()) {
		return NoReason
	}
	switch s := rd.resource.read().serving(); {
	case s == nil:
		return NotCached
	case s.isSmall():
		return rd.unproven
	}
	return NoReason
}

// tooStale reports whether the session last heard from the upstream more than Config.MaxStaleness
// ago. It returns false if there is no session or no limit, and for a read of an exact version or
// with a continue token.
func (rd *Read) tooStale() bool {
	most := rd.mirror.cfg.MaxStaleness
	if most <= 0 || rd.resource == nil || rd.ExactVersion() > 0 || rd.Continue != nil {
		return false
	}
	s := rd.resource.Serving()
	return s != nil && time.Since(s.LastHeard()) > most
}

// SendsState reports whether the answer is the state of many objects. It is true for a LIST of the
// current state, except for a small page or a later page, and for a WATCH that does not resume.
func SendsState(rq *request.Request) bool {
	return rq.Name == "" && rq.ExactVersion() == 0 && rq.Continue == nil && !smallPage(rq)
}

// smallPage reports whether the request is a LIST with a small limit, which costs the upstream no
// more than a proof that the session is current. A WATCH ignores its limit.
func smallPage(rq *request.Request) bool {
	return !rq.Watch && rq.Limit > 0 && rq.Limit < MinProofObjects
}

// retryAfter is the Retry-After, in seconds, of the 429 for a read while the proxy reads the
// resource again.
const retryAfter = 1

// errReread is returned for a read while its resource has no session. It is a 429 and not a 503,
// because neither the proxy nor the upstream is shutting down.
var errReread = apierrors.NewTooManyRequests("The resource is being reloaded, please try again later.", retryAfter)

// rereads reports whether the proxy is reading the resource again after a recent restore of the
// upstream, or after a recent redefinition of the resource. After a redefinition of a resource with
// few objects it returns false: lists of the resource are forwarded, which costs the upstream
// little. After a restore it returns true for any number of objects: the proxy would refuse a watch
// that resumes from a forwarded list, until it has reread the resource.
func (res *Resource) rereads(st *State) bool {
	return st.phase != phaseServing && st.unserved == StandingLoading &&
		(res.mirror.Restores.isUnread(res.GVR()) || st.wasRedefined(time.Now()) && st.objects >= MinProofObjects)
}

// lost returns why a read can be neither served nor forwarded after the upstream went back, or nil.
//
// A read that resumes from before the restore gets 410, unless the session can resume from there.
// If the read were forwarded, the upstream might later reach the same resourceVersion with another
// state. The client cannot distinguish the two states, so it would permanently miss the changes
// between them. The client gets the error immediately: by the time the resource is cached again,
// the upstream may have reached that resourceVersion.
//
// A read of the current state gets 429 while the resource is reread, so that not all clients list
// the upstream at the same time. The same is true for a resource that the upstream has redefined:
// an upgrade redefines all resources.
func (rd *Read) lost(st *State) error {
	s, from, restores := st.serving(), rd.ExactVersion(), &rd.mirror.Restores
	switch {
	case rd.mirror.LostFrom(rd.GVR(), from) != nil, rd.hasFutureVersion(s),
		s != nil && restores.before(from) && !s.Cache().CanResumeFrom(rd.ResourceVersion):
		return wentBackSince(from)
	case s == nil && SendsState(rd.Request) && rd.resource.rereads(st):
		return errReread
	}
	return nil
}

// hasFutureVersion reports whether a read resumes from a resourceVersion that session s has not
// reached, and that may be from before the upstream went back. It returns false if s is nil. The
// resourceVersion may also be valid. The upstream's lists have the upstream's newest
// resourceVersion, and the session of a resource that does not change reaches it late.
func (rd *Read) hasFutureVersion(s *Session) bool {
	from := rd.ExactVersion()
	return s != nil && rd.mirror.Restores.before(from) && from > s.Version()
}

// checkFutureVersion must be called for a read for which hasFutureVersion is true. from is the
// read's resourceVersion. checkFutureVersion asks the upstream for its newest resourceVersion, and
// returns an error if the upstream has not reached from. One such request serves all reads that
// wait for the answer.
func (s *Session) checkFutureVersion(ctx context.Context, from uint64) error {
	switch newest, err := s.NewestVersion(ctx); {
	case err != nil:
		return apierrors.NewTooManyRequests("The server has gone back to an earlier state, and has not reported its newest resourceVersion.", retryAfter)
	case newest < from:
		return wentBackSince(from)
	}
	// The resource has not changed up to that resourceVersion (from), or the client has listed it
	// since the restore.
	return nil
}

// maxRereadWaiters bounds how many requests wait for one resource at the same time. Each of them
// occupies a seat, which other requests may need to run.
const maxRereadWaiters = 100

// awaitReread blocks until the resource is cached and follows the upstream, in two cases: the read
// would otherwise get 429 because the resource is being reread; or it needs a proof from a session
// that has listed the upstream but does not watch it yet. It blocks for at most Timeouts.Reread or
// until ctx ends, and not at all if too many requests wait.
func (rd *Read) awaitReread(ctx context.Context) {
	if !rd.isReread() {
		return
	}
	res := rd.resource
	defer res.waiting.Add(-1)
	if res.waiting.Add(1) > maxRereadWaiters {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, rd.mirror.cfg.Timeouts.Reread)
	defer cancel()
	for ctx.Err() == nil {
		changed := res.nextState() // called before isReread, so that no state is missed
		if !rd.isReread() {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// isReread reports whether awaitReread must wait.
func (rd *Read) isReread() bool {
	st := rd.resource.State()
	s := st.serving()
	if s == nil {
		return apierrors.IsTooManyRequests(rd.lost(st))
	}
	return rd.unproven != NoReason && !st.follows && s.Reflector().Status().Err == nil
}
