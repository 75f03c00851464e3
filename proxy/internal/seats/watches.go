package seats

import (
	"errors"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/weirproject/weir/internal/serve/budget"
)

// Watches bounds long-running requests: their number, the number of each user, and their memory, of
// which a user has half at most who does not run the cluster. All tokens together that are not
// known yet have half as well, and all requests without a credential an eighth; of these each
// source leaves others as much as it has. It never blocks. It is safe for concurrent use.
type Watches struct {
	// Number counts the requests. Its shares are the users, the tokens and the sources.
	Number *budget.Budget
	// Memory has their bytes, by the levels below.
	Memory *budget.Budget

	kept    func() int64 // bytes kept for slow clients
	refused [limits]atomic.Uint64
}

// These are the levels of Watches.Memory. Its shares are users, accepted tokens and sources.
const (
	watchKnown = iota
	watchNewToken
	watchAnonymous
)

// memoryOf returns the level and the share of a flow. A token that is not known is part of its
// source, since any client can make up one. Callers that run the cluster have no share, and so all
// of the memory.
func memoryOf(f Flow) (level int, share string) {
	switch {
	case f.Level == Anonymous:
		return watchAnonymous, f.Caller
	case f.Level == NewTokens:
		return watchNewToken, f.Caller
	case f.Level.isSystem():
		return watchKnown, ""
	}
	return watchKnown, f.Caller
}

// These are the limits that refuse a request.
const (
	limitTotal = iota
	limitUser
	limitMemory
	limits
)

// WatchBytes estimates the memory of a watch without its connection. Both together were measured at
// 73 KB.
const WatchBytes = 32 << 10

// longRetrySeconds is the Retry-After of a refused watch. Watches end late, so their clients are
// asked to wait longer.
const longRetrySeconds = 5

var (
	errTooManyWatches = apierrors.NewTooManyRequests("Too many watches, please try again later.", longRetrySeconds)
	errTooManyOfUser  = apierrors.NewTooManyRequests("Too many watches of this user, please try again later.", longRetrySeconds)
	errWatchMemory    = apierrors.NewTooManyRequests("The watches take all the memory that they may, please try again later.", longRetrySeconds)

	// ErrTooManyStarts is the 429 of a WATCH that found no seat to begin.
	ErrTooManyStarts = apierrors.NewTooManyRequests("Too many watches begin at the same time, please try again later.", longRetrySeconds)
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

// Slot is the slot of one request. Only the request's goroutine uses it.
type Slot struct {
	watches        *Watches
	number, memory *budget.Charge
	key            string // of the user, the token or the source that the request counts as
	newToken       bool   // the upstream has not accepted the token
	asked          bool   // the upstream was asked about the caller
}

// Acquire returns a slot for a request of a flow, which uses extra bytes in addition to WatchBytes.
// The error is the Status to reject it with.
func (w *Watches) Acquire(f Flow, extra int64) (*Slot, error) {
	key := f.Caller
	if f.Token != "" {
		key = f.Token // one that is not known yet, as all are after a start
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

// Count returns the number of requests.
func (w *Watches) Count() int { return int(w.Number.Used()) }

// MemoryExcess returns by how many bytes the requests exceed their memory. 0 or less: they do not.
func (w *Watches) MemoryExcess() int64 { return w.Memory.Excess(watchKnown) }

// Release returns the slot. A second call does nothing.
func (p *Slot) Release() {
	p.number.Release()
	p.memory.Release()
}

// Grow counts n more bytes of the request.
func (p *Slot) Grow(n int64) { p.memory.Add(n) }

// Identify counts the request under its caller, about whom the upstream was asked; nil: it did not
// say. It fails if that user has reached a limit. The error is the Status to reject the request
// with.
func (p *Slot) Identify(who user.Info) error {
	p.asked = true
	if who == nil || UserKey(who) == p.key {
		return nil
	}
	share := UserKey(who)
	before := p.key
	if p.number.MoveToShare(0, share) != nil {
		return p.watches.refuse(limitUser, errTooManyOfUser)
	}
	_, ofMemory := memoryOf(ReviewFlow(who))
	if p.memory.MoveToShare(watchKnown, ofMemory) != nil {
		p.number.Move(0, before)
		return p.watches.refuse(limitMemory, errWatchMemory)
	}
	p.key, p.newToken = share, false
	return nil
}

// Accept counts the request, whose token the upstream has accepted, no longer among those of
// unknown callers.
func (p *Slot) Accept() {
	if p.newToken {
		p.memory.Move(watchKnown, p.key)
		p.newToken = false
	}
}

// Asked reports whether the upstream was asked about the caller.
func (p *Slot) Asked() bool { return p.asked }

// ByToken reports whether the request counts as a token's, because the user is not known.
func (p *Slot) ByToken() bool { return strings.HasPrefix(p.key, tokenPrefix) }
