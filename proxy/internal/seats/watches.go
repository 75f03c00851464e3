package seats

import (
	"errors"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/weirproject/weir/internal/serve/budget"
)

// Watches bounds long-running requests: their number, their number per user, and their memory. A
// user may use at most half of the memory, unless it runs the cluster. All tokens that are not
// authenticated yet may together use half, too. All requests without a credential may together use
// an eighth. Among requests with such tokens, and among requests without a credential, each source
// address leaves as much memory free for other sources as it uses. Watches never blocks. It is safe
// for concurrent use.
type Watches struct {
	// Number counts the requests. Its shares are users, tokens and source addresses.
	Number *budget.Budget
	// Memory counts the bytes of the requests. Its levels are watchKnown, watchNewToken and
	// watchAnonymous.
	Memory *budget.Budget

	kept    func() int64 // bytes kept for slow clients
	refused [limits]atomic.Uint64
}

// These are the levels of Watches.Memory. Its shares are users, accepted tokens and source
// addresses.
const (
	watchKnown = iota
	watchNewToken
	watchAnonymous
)

// memoryOf returns the level and the share of a flow in Watches.Memory. A token that is not
// authenticated yet counts for its source address, because any client can make up a token. Callers
// that run the cluster have no share, so they may use all of the memory.
func memoryOf(f Flow) (level int, share string) {
	switch f.Level {
	case NewTokens:
		level = watchNewToken
	case Anonymous:
		level = watchAnonymous
	}
	return level, f.share()
}

// These are the limits because of which Watches refuses requests.
const (
	limitTotal = iota
	limitUser
	limitMemory
	limits
)

// WatchBytes is an estimate of the memory of a watch without its connection. A watch and its
// connection together were measured at 73 KB.
const WatchBytes = 32 << 10

// longRetrySeconds is the Retry-After of a refused watch. It is long because watches last long, and
// one must end before another is accepted.
const longRetrySeconds = 5

var (
	errTooManyWatches = apierrors.NewTooManyRequests("Too many watches, please try again later.", longRetrySeconds)
	errTooManyOfUser  = apierrors.NewTooManyRequests("Too many watches of this user, please try again later.", longRetrySeconds)
	errWatchMemory    = apierrors.NewTooManyRequests("The memory for watches is used up, please try again later.", longRetrySeconds)

	// ErrTooManyStarts is the 429 for a WATCH that got no seat in Seats.Starts.
	ErrTooManyStarts = apierrors.NewTooManyRequests("Too many watches start at the same time, please try again later.", longRetrySeconds)
)

func newWatches(c *Config) *Watches {
	w := &Watches{
		Number: budget.New(int64(c.Watches), budget.Level{Name: "watches", Share: int64(c.WatchesPerUser)}),
		Memory: budget.New(c.WatchMemory,
			budget.Level{Name: "known", Share: c.WatchMemory / 2},
			budget.Level{Name: "new-tokens", Most: c.WatchMemory / 2, Fair: true},
			budget.Level{Name: "anonymous", Most: c.WatchMemory / 8, Fair: true}),
		kept: c.Kept,
	}
	w.Memory.CountAlso(func() int64 { return c.Connections() + c.Kept() })
	return w
}

// Slot is the place of one request among the long-running requests. Only the request's goroutine
// uses it.
type Slot struct {
	watches        *Watches
	number, memory *budget.Charge
	key            string // the share of Number: a user, a token or a source address
	newToken       bool   // the upstream has not accepted the token
	asked          bool   // the upstream was asked about the caller
}

// Acquire returns a slot for a request of flow f that uses WatchBytes+extra bytes. The error is the
// Status with which the caller must reject the request.
func (w *Watches) Acquire(f Flow, extra int64) (*Slot, error) {
	key := f.Caller
	if f.Token != "" {
		// a token that is not authenticated yet, such as each token after a start of the proxy
		key = f.Token
	}
	number, err := w.Number.Take(0, key, 1)
	if exceeded, ok := errors.AsType[*budget.ExceededError](err); ok {
		if exceeded.OfShare {
			return nil, w.refuse(limitUser, errTooManyOfUser)
		}
		return nil, w.refuse(limitTotal, errTooManyWatches)
	}
	level, share := memoryOf(f)
	memory, err := w.Memory.Take(level, share, WatchBytes+extra)
	if err != nil {
		number.Release()
		return nil, w.refuse(limitMemory, errWatchMemory)
	}
	return &Slot{watches: w, number: number, memory: memory, key: key, newToken: level == watchNewToken}, nil
}

func (w *Watches) refuse(limit int, why error) error {
	w.refused[limit].Add(1)
	return why
}

// Count returns the number of requests that have a slot.
func (w *Watches) Count() int { return int(w.Number.Used()) }

// MemoryExcess returns by how many bytes the memory of all requests together exceeds the limit. 0
// or less: it does not.
func (w *Watches) MemoryExcess() int64 { return w.Memory.Excess(watchKnown) }

// Release releases the slot. A second call does nothing.
func (p *Slot) Release() {
	p.number.Release()
	p.memory.Release()
}

// Grow adds n bytes to the memory of the request.
func (p *Slot) Grow(n int64) { p.memory.Add(n) }

// Identify counts the request for a user. who is the user whom the upstream named in a review of
// the caller, or nil if it named none. Identify fails if the user has reached a limit. The error is
// the Status with which the caller must reject the request.
func (p *Slot) Identify(who user.Info) error {
	p.asked = true
	if who == nil || UserKey(who) == p.key {
		return nil
	}
	share := UserKey(who)
	if p.number.MoveToShare(0, share) != nil {
		return p.watches.refuse(limitUser, errTooManyOfUser)
	}
	_, ofMemory := memoryOf(ReviewFlow(who))
	if p.memory.MoveToShare(watchKnown, ofMemory) != nil {
		p.number.Move(0, p.key)
		return p.watches.refuse(limitMemory, errWatchMemory)
	}
	p.key, p.newToken = share, false
	return nil
}

// Accept counts the request as one of a known caller, because the upstream has accepted its token.
func (p *Slot) Accept() {
	if p.newToken {
		p.memory.Move(watchKnown, p.key)
		p.newToken = false
	}
}

// Asked reports whether the upstream was asked about the caller.
func (p *Slot) Asked() bool { return p.asked }

// ByToken reports whether the request counts for its token, because its user is not known.
func (p *Slot) ByToken() bool { return strings.HasPrefix(p.key, tokenPrefix) }
