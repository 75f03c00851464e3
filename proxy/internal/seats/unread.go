package seats

import (
	"github.com/weirproject/weir/internal/serve/budget"
	"github.com/weirproject/weir/internal/serve/watchcache"
)

// Unread bounds the memory of responses that wait for their clients to read them: responses to
// LISTs and GETs, the compressor of the initial state of a WATCH, and the part of a forwarded
// response that the proxy has read ahead. Watches.Memory counts the other memory of a WATCH. Unread
// is safe for concurrent use.
type Unread struct{ *budget.Budget }

// The levels of Unread.
const (
	unreadKnown = iota
	unreadUnknown
)

// These are divisors of the limit of Unread. The responses of one user may use 1/userPart. The
// responses of all callers that are not authenticated may together use 1/newTokensPart. The
// responses of each source address may use 1/sourcePart.
const (
	userPart      = 2
	newTokensPart = 4
	sourcePart    = 8
)

func newUnread(limit int64) Unread {
	return Unread{budget.New(limit,
		budget.Level{Name: "known", Share: limit / userPart},
		budget.Level{Name: "unknown", Most: limit / newTokensPart, Share: limit / sourcePart},
	)}
}

// Payer returns the share of the budget that is charged for responses to requests of flow f. A user
// that runs the cluster has no share, so it may use all of the memory.
func (u Unread) Payer(f Flow) *watchcache.Payer {
	p := &watchcache.Payer{Budget: u.Budget, Level: unreadKnown, Share: f.share(), Most: u.Limit() / userPart}
	if f.Level.BySource() {
		p.Level, p.Most = unreadUnknown, u.Limit()/sourcePart
	}
	return p
}
