package proxy

import (
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/weirproject/weir/watchcache"
)

// inflight bounds the requests of one kind that are under way at once. Nobody waits for a place: who finds none is told to come again, as
// kube-apiserver does. Safe for concurrent use.
type inflight struct {
	limit int

	mu     sync.Mutex
	now    int
	second int64  // Unix
	peaks  [2]int // in that second, and in the one before
}

const (
	defaultReadOnly    = 1000
	defaultMutating    = 200
	defaultLongRunning = 100_000

	retryAfterSeconds = 1
)

// enter takes a place; false: there is none.
func (f *inflight) enter(at time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now >= f.limit {
		return false
	}
	f.turn(at)
	f.now++
	f.peaks[0] = max(f.peaks[0], f.now)
	return true
}

func (f *inflight) leave(at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turn(at)
	f.now--
}

// turn begins a new second. The lock is held.
func (f *inflight) turn(at time.Time) {
	switch second := at.Unix(); {
	case second == f.second:
	case second == f.second+1:
		f.second, f.peaks = second, [2]int{f.now, f.peaks[0]}
	default:
		f.second, f.peaks = second, [2]int{f.now, f.now}
	}
}

// peak is the most that there were at once in the last second.
func (f *inflight) peak(at time.Time) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turn(at)
	return max(f.peaks[0], f.peaks[1])
}

// admission bounds requests by what they are.
type admission struct{ readOnly, mutating, longRunning inflight }

func newAdmission(o *Options) *admission {
	return &admission{
		readOnly:    inflight{limit: o.MaxRequests},
		mutating:    inflight{limit: o.MaxMutating},
		longRunning: inflight{limit: o.MaxLongRunning},
	}
}

// of is where a request belongs.
func (a *admission) of(info *request.RequestInfo) *inflight {
	switch {
	case longRunning(info):
		return &a.longRunning
	case slices.Contains([]string{"get", "list", "watch", "head"}, info.Verb):
		return &a.readOnly
	}
	return &a.mutating
}

// longRunning says whether a request lasts as long as its client likes, as kube-apiserver sees it.
func longRunning(info *request.RequestInfo) bool {
	return info.Verb == "watch" || info.Verb == "proxy" ||
		info.IsResourceRequest && slices.Contains([]string{"attach", "exec", "proxy", "log", "portforward"}, info.Subresource)
}

// tooMany tells a client to come again.
func tooMany(w http.ResponseWriter, r *http.Request) {
	watchcache.WriteError(w, r, apierrors.NewTooManyRequests("Too many requests, please try again later.", retryAfterSeconds))
}
