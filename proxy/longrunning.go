package proxy

import (
	"context"
	"crypto/sha256"
	"net/http"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
)

// longRunningLimiter bounds the requests that last as long as their clients like: all of them,
// those of each user, and the memory that they take. Nobody waits for a place. Safe for concurrent
// use.
type longRunningLimiter struct {
	limit, perUser int
	memory         int64        // 0 or less: no bound
	connections    func() int   // open ones
	backlog        func() int64 // bytes that are kept for watches which are late
	rejected       [3]atomic.Uint64

	mu     sync.Mutex
	total  int
	byUser map[string]int // by userKey; as many as there are requests at most
}

// What a request was refused by.
const (
	limitTotal = iota
	limitUser
	limitMemory
)

const (
	defaultLongRunning = 100_000
	defaultWatchMemory = 2 << 30
	// connectionBytes and watchBytes are what one takes, kernel apart: a watch that has a
	// connection for itself was measured to take 101 KB.
	connectionBytes = 64 << 10
	watchBytes      = 32 << 10
)

// Those who are refused are told so, and to come again: nothing ends soon, so not at once.
const longRunningRetrySeconds = 5

var (
	errTooManyLongRunning = apierrors.NewTooManyRequests("Too many watches, please try again later.", longRunningRetrySeconds)
	errTooManyOfUser      = apierrors.NewTooManyRequests("Too many watches of this user, please try again later.", longRunningRetrySeconds)
	errWatchMemory        = apierrors.NewTooManyRequests("The watches take all the memory that they may, please try again later.", longRunningRetrySeconds)
)

func newLongRunningLimiter(o *Options) *longRunningLimiter {
	return &longRunningLimiter{
		limit: o.MaxLongRunning, perUser: o.MaxWatchesPerUser, memory: o.WatchMemory, byUser: map[string]int{},
	}
}

// longRunningSlot is one request's. It is of the request's goroutine.
type longRunningSlot struct {
	limiter *longRunningLimiter
	user    string
}

// acquire takes a place for a request of a user. The error is the Status to refuse it with.
func (l *longRunningLimiter) acquire(key string) (*longRunningSlot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.total >= l.limit:
		l.rejected[limitTotal].Add(1)
		return nil, errTooManyLongRunning
	case l.byUser[key] >= l.perUser:
		l.rejected[limitUser].Add(1)
		return nil, errTooManyOfUser
	case l.memory > 0 && l.memoryUsedLocked()+watchBytes > l.memory:
		l.rejected[limitMemory].Add(1)
		return nil, errWatchMemory
	}
	l.total++
	l.byUser[key]++
	return &longRunningSlot{l, key}, nil
}

// memoryUsedLocked returns what the requests take. The lock is held.
func (l *longRunningLimiter) memoryUsedLocked() int64 {
	return int64(l.connections())*connectionBytes + int64(l.total)*watchBytes + l.backlog()
}

// memoryUsed returns what the requests take.
func (l *longRunningLimiter) memoryUsed() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.memoryUsedLocked()
}

// overMemory reports whether the requests take more than they may.
func (l *longRunningLimiter) overMemory() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.memory > 0 && l.memoryUsedLocked() > l.memory
}

// count returns how many there are.
func (l *longRunningLimiter) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

func (p *longRunningSlot) release() {
	p.limiter.mu.Lock()
	defer p.limiter.mu.Unlock()
	p.limiter.total--
	p.dropUser()
}

// dropUser takes the request from its user. The lock is held.
func (p *longRunningSlot) dropUser() {
	if p.limiter.byUser[p.user]--; p.limiter.byUser[p.user] == 0 {
		delete(p.limiter.byUser, p.user)
	}
}

// setUser says who the user turned out to be. It returns an error if they have as many as they may.
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
	}
	p.dropUser()
	p.user = key
	p.limiter.byUser[key]++
	return nil
}

// slotKey is where the context of a request that lasts has its *place.
type slotKey struct{}

// slotOf returns the place of a request; nil: it has none, and does not last.
func slotOf(r *http.Request) *longRunningSlot {
	p, _ := r.Context().Value(slotKey{}).(*longRunningSlot)
	return p
}

// admitLongRunning is admit for a request that lasts. known: all of ask is there.
func (s *Server) admitLongRunning(a *responseWriter, r *http.Request, parsed parsedRequest, known bool) {
	f := s.flowOf(r, parsed.info)
	key := f.caller
	if id := tokenID(r); key == "" && id != ([sha256.Size]byte{}) {
		key = tokenKey(id) // of somebody who is about to be known: after a start everybody is
	}
	p, err := s.flowControl.longRunning.acquire(key)
	if err != nil {
		s.reject(a, r, err)
		return
	}
	defer p.release()
	if !known {
		in := s.flowControl.parsing
		if !in.acquire(r.Context(), f) {
			s.reject(a, r, errTooMany)
			return
		}
		parsed = s.requests.parse(r, parsed)
		in.release(f)
	}
	s.serve(a, r.WithContext(context.WithValue(r.Context(), slotKey{}, p)), parsed.read)
}
