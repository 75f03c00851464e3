package proxy

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/proxy/internal/conn"
)

// longRunningLimiter bounds long-running requests: their number, the number of each user, and their
// memory, of which a user has half at most who does not run the cluster. All tokens together that
// are not known yet have half as well, and all requests without a credential an eighth; of these
// each source leaves others as much as it has, see leavesRoom. It never blocks. It is safe for
// concurrent use.
type longRunningLimiter struct {
	limit, perUser int
	memory         int64        // 0 or less: no bound
	connections    func() int   // open connections
	kept           func() int64 // bytes kept for slow watches
	writing        atomic.Int64 // writes to clients of forwarded requests that are under way
	rejected       [3]atomic.Uint64

	mu     sync.Mutex
	total  int
	extra  int64           // bytes of the requests beyond watchBytes each
	byUser map[string]int  // by userKey or tokenKey; no more entries than requests
	shares map[share]int64 // bytes; no more entries than requests, and the totals by level
}

// share is a part of the memory: that of a user or an accepted token, by userKey or tokenKey, or
// that of a source, in a level by source. Such a level has a total, without a caller.
type share struct {
	level  priorityLevel // levelEveryone, or one by source
	caller string
}

// shareOf returns the share of a flow. A token that is not known is part of its source, since
// anybody can make up one.
func shareOf(f flow) share {
	if f.level.bySource() {
		return share{f.level, f.caller}
	}
	return userShare(f.caller)
}

// userShare returns the share of a user or an accepted token.
func userShare(key string) share { return share{levelEveryone, key} }

// total returns the share that all of a level by source have together.
func (s share) total() share { return share{level: s.level} }

// memoryPart is the part (one in n) of the memory that a share may have, or all sources of a level
// together.
var memoryPart = map[priorityLevel]int64{levelEveryone: 2, levelNewTokens: 2, levelAnonymous: 8}

// These are the reasons for a rejection.
const (
	limitTotal = iota
	limitUser
	limitMemory
)

const (
	defaultLongRunning = 100_000
	defaultWatchMemory = 2 << 30
	// watchBytes estimates the memory of a watch without its connection. Both together were measured
	// at 73 KB.
	watchBytes = 32 << 10
	// usualHead is the part of watchBytes for the head of the request, which net/http keeps until
	// the request ends. headerBytes estimates the overhead of a header.
	usualHead   = 4 << 10
	headerBytes = 128
)

// extraHead estimates by how much the head of a request is larger than usualHead.
func extraHead(r *http.Request) int64 {
	n := len(r.RequestURI)
	for name, values := range r.Header {
		for _, value := range values {
			n += headerBytes + len(name) + len(value)
		}
	}
	return int64(max(n-usualHead, 0))
}

// bodyBytes estimates the memory of the body of a long-running request: of a buffer for a retry,
// until the request ends, or of an HTTP/2 window of the same size, until the body is read.
func bodyBytes(r *http.Request) int64 {
	if r.ContentLength < 0 {
		return maxBuffered
	}
	return min(r.ContentLength, maxBuffered)
}

// Long-running requests end late, so their clients are asked to wait longer.
const longRunningRetrySeconds = 5

var (
	errTooManyLongRunning = apierrors.NewTooManyRequests("Too many watches, please try again later.", longRunningRetrySeconds)
	errTooManyOfUser      = apierrors.NewTooManyRequests("Too many watches of this user, please try again later.", longRunningRetrySeconds)
	errWatchMemory        = apierrors.NewTooManyRequests("The watches take all the memory that they may, please try again later.", longRunningRetrySeconds)
)

func newLongRunningLimiter(o *Options) *longRunningLimiter {
	return &longRunningLimiter{
		limit: o.MaxLongRunning, perUser: o.MaxWatchesPerUser, memory: o.WatchMemory, byUser: map[string]int{}, shares: map[share]int64{},
	}
}

// longRunningSlot is the slot of one request. Only the request's goroutine uses it.
type longRunningSlot struct {
	limiter *longRunningLimiter
	user    string
	share   share
	extra   int64 // see extraHead, bodyBytes; and the buffers of one that is forwarded
	asked   bool  // the upstream was asked about the caller
	left    bool  // it was released
}

// acquire returns a slot for a request of a user, who has a share of the memory, or all of it if
// the user runs the cluster. The error is the Status to reject it with.
func (l *longRunningLimiter) acquire(key string, of share, system bool, extra int64) (*longRunningSlot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.total >= l.limit:
		l.rejected[limitTotal].Add(1)
		return nil, errTooManyLongRunning
	case l.byUser[key] >= l.perUser:
		l.rejected[limitUser].Add(1)
		return nil, errTooManyOfUser
	case !system && l.exceedsShare(of, watchBytes+extra),
		l.memory > 0 && l.memoryUsedLocked()+watchBytes+extra > l.memory:
		l.rejected[limitMemory].Add(1)
		return nil, errWatchMemory
	}
	l.total++
	l.extra += extra
	l.byUser[key]++
	l.charge(of, watchBytes+extra)
	return &longRunningSlot{limiter: l, user: key, share: of, extra: extra}, nil
}

// exceedsShare reports whether more bytes would exceed a share. The caller holds the lock.
func (l *longRunningLimiter) exceedsShare(of share, more int64) bool {
	limit, used := l.memory/memoryPart[of.level], l.shares[of]
	switch {
	case l.memory <= 0:
		return false
	case of.level.bySource():
		room := limit - l.shares[of.total()]
		return more > room || !leavesRoom(used, room)
	}
	return used+more > limit
}

// charge counts n more bytes of a share. The caller holds the lock.
func (l *longRunningLimiter) charge(of share, n int64) {
	add := func(to share) {
		if l.shares[to] += n; l.shares[to] == 0 {
			delete(l.shares, to)
		}
	}
	if add(of); of.level.bySource() {
		add(of.total())
	}
}

// memoryUsedLocked returns the memory of all requests. The caller holds the lock.
func (l *longRunningLimiter) memoryUsedLocked() int64 {
	return int64(l.connections())*conn.ConnectionBytes + int64(l.total)*watchBytes + l.extra + l.late()
}

// late returns the bytes kept for slow clients. The transport may have read ahead for each to whom
// a write is under way.
func (l *longRunningLimiter) late() int64 { return l.kept() + l.writing.Load()*readAhead }

// memoryUsed returns the memory of all requests.
func (l *longRunningLimiter) memoryUsed() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.memoryUsedLocked()
}

// memoryExcess returns by how much the requests exceed their memory. 0 or less: they do not.
func (l *longRunningLimiter) memoryExcess() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.memory <= 0 {
		return 0
	}
	return l.memoryUsedLocked() - l.memory
}

// count returns the number of requests.
func (l *longRunningLimiter) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// release returns the slot, once. It must not be used any more.
func (p *longRunningSlot) release() {
	if p.left {
		return
	}
	p.left = true
	p.limiter.mu.Lock()
	defer p.limiter.mu.Unlock()
	p.limiter.total--
	p.limiter.extra -= p.extra
	p.dropUser()
}

// grow counts n more bytes of the request.
func (p *longRunningSlot) grow(n int64) {
	p.limiter.mu.Lock()
	defer p.limiter.mu.Unlock()
	p.extra += n
	p.limiter.extra += n
	p.limiter.charge(p.share, n)
}

// dropUser removes the request from its user's count, and from its share. The caller holds the
// lock.
func (p *longRunningSlot) dropUser() {
	if p.limiter.byUser[p.user]--; p.limiter.byUser[p.user] == 0 {
		delete(p.limiter.byUser, p.user)
	}
	p.limiter.charge(p.share, -watchBytes-p.extra)
}

// identify counts the request under its caller, about whom the upstream was asked; nil: it did not
// say. It fails if that user has reached the limit.
func (p *longRunningSlot) identify(who user.Info) error {
	p.asked = true
	if who == nil {
		return nil
	}
	return p.setUser(who)
}

// setUser moves the slot to the authenticated user. It fails if that user has reached the limit.
func (p *longRunningSlot) setUser(who user.Info) error {
	p.limiter.mu.Lock()
	defer p.limiter.mu.Unlock()
	key := userKey(who)
	switch {
	case key == p.user:
		return nil
	case p.limiter.byUser[key] >= p.limiter.perUser:
		p.limiter.rejected[limitUser].Add(1)
		return errTooManyOfUser
	case !isSystem(who) && p.limiter.exceedsShare(userShare(key), watchBytes+p.extra):
		p.limiter.rejected[limitMemory].Add(1)
		return errWatchMemory
	}
	p.dropUser()
	p.user, p.share = key, userShare(key)
	p.limiter.byUser[key]++
	p.limiter.charge(p.share, watchBytes+p.extra)
	return nil
}

// accepted counts the request, whose token the upstream has accepted, no longer among those of
// unknown callers.
func (p *longRunningSlot) accepted() {
	p.limiter.mu.Lock()
	defer p.limiter.mu.Unlock()
	if p.share.level == levelNewTokens {
		p.limiter.charge(p.share, -watchBytes-p.extra)
		p.share = userShare(p.user)
		p.limiter.charge(p.share, watchBytes+p.extra)
	}
}

// byToken reports whether the request is counted as a token's, because the user is not known.
func (p *longRunningSlot) byToken() bool { return strings.HasPrefix(p.user, tokenPrefix) }

// countUser counts a long-running request that is to be forwarded under its user. Before, the
// request counts under its token, since the proxy has not reviewed the token, and a user may have
// any number of tokens. If the review fails, it remains counted under the token. The error is the
// Status to reject the request with.
func (s *Server) countUser(r *http.Request) error {
	p := slotOf(r)
	if p == nil || p.asked || !p.byToken() {
		return nil
	}
	c, _ := s.authn.authenticate(r, reviewOptions{})
	if c == nil {
		return p.identify(nil)
	}
	return p.identify(c.user)
}

// slotKey is the context key of a request's *longRunningSlot.
type slotKey struct{}

// slotOf returns the slot of a request, or nil if it is not long-running and does not ask to be.
func slotOf(r *http.Request) *longRunningSlot {
	p, _ := r.Context().Value(slotKey{}).(*longRunningSlot)
	return p
}

// acquireSlot returns a slot for a request of a flow. The error is the Status to reject it with.
func (s *Server) acquireSlot(r *http.Request, f flow) (*longRunningSlot, error) {
	key := f.caller
	if f.token != "" {
		key = f.token // one that is not known yet, as all are after a start
	}
	return s.flowControl.longRunning.acquire(key, shareOf(f), f.level < levelEveryone, extraHead(r)+bodyBytes(r))
}

// admitLongRunning answers a long-running request, which has its slot, once flow control lets it be
// parsed.
func (s *Server) admitLongRunning(a *responseWriter, r *http.Request, f flow) {
	rq, cached := request.CachedStrict(r)
	if !cached {
		in := s.flowControl.parsing
		if !in.acquire(r.Context(), f) {
			s.reject(a, r, errTooMany)
			return
		}
		rq = request.Strict(r)
		in.release(f)
	}
	s.serve(a, r, rq)
}
