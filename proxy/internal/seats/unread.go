package seats

import (
	"k8s.io/apiserver/pkg/authentication/user"

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
// responses of all callers that are not authenticated may use 1/newTokensPart together, and the
// responses of each source address 1/sourcePart.
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

// Payer returns the share of the budget that is charged for responses to a user whom the proxy has
// authenticated. A user that runs the cluster has no share, so it may use all of the memory. Payer
// returns nil if the memory is not bounded.
func (u Unread) Payer(who user.Info) *watchcache.Payer {
	if u.Limit() <= 0 {
		return nil
	}
	p := &watchcache.Payer{Budget: u.Budget, Level: unreadKnown, Most: u.Limit() / userPart}
	if !IsSystem(who) {
		p.Share = UserKey(who)
	}
	return p
}

// Charge returns an empty charge for a forwarded response to a request of flow f. most is how many
// bytes all forwarded responses of the caller may use together. It is 0 or less if the memory is
// not bounded.
func (u Unread) Charge(f Flow) (c *budget.Charge, most int64) {
	switch {
	case f.Level.BySource():
		return u.NewCharge(unreadUnknown, f.Caller), u.Limit() / sourcePart
	case f.Level.isSystem():
		return u.NewCharge(unreadKnown, ""), u.Limit() / userPart
	}
	return u.NewCharge(unreadKnown, f.Caller), u.Limit() / userPart
}
