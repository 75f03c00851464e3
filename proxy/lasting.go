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

// lasting bounds the requests that last as long as their clients like: all of them, those of each user, and the memory that they take. Nobody
// waits for a place. Safe for concurrent use.
type lasting struct {
	limit, perUser int
	memory         int64        // 0 or less: no bound
	connections    func() int   // open ones
	late           func() int64 // bytes that are kept for watches which are late
	refused        [3]atomic.Uint64

	mu  sync.Mutex
	now int
	of  map[string]int // by userKey; as many as there are requests at most
}

// What a request was refused by.
const (
	byAll = iota
	byUser
	byMemory
)

const (
	defaultLongRunning = 100_000
	defaultWatchMemory = 2 << 30
	// perConnection and perWatch are what one takes, kernel apart: a watch that has a connection for itself was measured to take 101 KB.
	perConnection = 64 << 10
	perWatch      = 32 << 10
)

// Those who are refused are told so, and to come again: nothing ends soon, so not at once.
const lastingRetrySeconds = 5

var (
	errTooManyLasting = apierrors.NewTooManyRequests("Too many watches, please try again later.", lastingRetrySeconds)
	errTooManyOfUser  = apierrors.NewTooManyRequests("Too many watches of this user, please try again later.", lastingRetrySeconds)
	errWatchMemory    = apierrors.NewTooManyRequests("The watches take all the memory that they may, please try again later.", lastingRetrySeconds)
)

func newLasting(o *Options) *lasting {
	return &lasting{
		limit: o.MaxLongRunning, perUser: o.MaxWatchesPerUser, memory: o.WatchMemory, of: map[string]int{},
	}
}

// place is one request's. It is of the request's goroutine.
type place struct {
	of   *lasting
	user string
}

// enter takes a place for a request of a user. The error is the Status to refuse it with.
func (l *lasting) enter(key string) (*place, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.now >= l.limit:
		l.refused[byAll].Add(1)
		return nil, errTooManyLasting
	case l.of[key] >= l.perUser:
		l.refused[byUser].Add(1)
		return nil, errTooManyOfUser
	case l.memory > 0 && l.bytes()+perWatch > l.memory:
		l.refused[byMemory].Add(1)
		return nil, errWatchMemory
	}
	l.now++
	l.of[key]++
	return &place{l, key}, nil
}

// bytes returns what the requests take. The lock is held.
func (l *lasting) bytes() int64 {
	return int64(l.connections())*perConnection + int64(l.now)*perWatch + l.late()
}

// used returns what the requests take.
func (l *lasting) used() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes()
}

// over reports whether the requests take more than they may.
func (l *lasting) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.memory > 0 && l.bytes() > l.memory
}

// count returns how many there are.
func (l *lasting) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

func (p *place) leave() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.of.now--
	p.drop()
}

// drop takes the request from its user. The lock is held.
func (p *place) drop() {
	if p.of.of[p.user]--; p.of.of[p.user] == 0 {
		delete(p.of.of, p.user)
	}
}

// is says who the user turned out to be. It returns an error if they have as many as they may.
func (p *place) is(who user.Info) error {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	key := userKey(who)
	switch {
	case key == p.user:
		return nil
	case p.of.of[key] >= p.of.perUser:
		p.of.refused[byUser].Add(1)
		return errTooManyOfUser
	}
	p.drop()
	p.user = key
	p.of.of[key]++
	return nil
}

// placeKey is where the context of a request that lasts has its *place.
type placeKey struct{}

// placeOf returns the place of a request; nil: it has none, and does not last.
func placeOf(r *http.Request) *place {
	p, _ := r.Context().Value(placeKey{}).(*place)
	return p
}

// admitLasting is admit for a request that lasts. known: all of ask is there.
func (s *Server) admitLasting(a *answer, r *http.Request, ask ask, known bool) {
	f := s.flowOf(r, ask.info)
	key := f.key
	if id := tokenID(r); key == "" && id != ([sha256.Size]byte{}) {
		key = tokenKey(id) // of somebody who is about to be known: after a start everybody is
	}
	p, err := s.admission.longRunning.enter(key)
	if err != nil {
		s.refuse(a, r, err)
		return
	}
	defer p.leave()
	if !known {
		in := s.admission.reading
		if !in.enter(r.Context(), f) {
			s.refuse(a, r, errTooMany)
			return
		}
		ask = s.urls.read(r, ask)
		in.leave(f)
	}
	s.answer(a, r.WithContext(context.WithValue(r.Context(), placeKey{}, p)), ask.read)
}
