package seats

import (
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/weirproject/weir/internal/serve/budget"
	"github.com/weirproject/weir/internal/serve/watchcache"
)

// Unread bounds the memory of responses that wait for their clients to read them: those of LISTs
// and GETs, what compresses the beginning of a WATCH, and what is read ahead of a forwarded
// response. The rest of a WATCH is in Watches.Memory. It is safe for concurrent use.
type Unread struct{ *budget.Budget }

// The levels of Unread.
const (
	unreadKnown = iota
	unreadUnknown
)

// A user may have a part (one in n) of Unread. The sources of unknown tokens have newTokensPart
// together, and sourcePart each.
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

// Payer returns who pays for the responses to a user that the proxy has authenticated. A user that
// runs the cluster has no share, and so all of the memory. nil: there is no bound.
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

// Charge returns a charge of no bytes for a forwarded response to a request of a flow. Most is what
// such responses may have together.
func (u Unread) Charge(f Flow) (c *budget.Charge, most int64) {
	switch {
	case f.Level.BySource():
		return u.NewCharge(unreadUnknown, f.Caller), u.Limit() / sourcePart
	case f.Level.isSystem():
		return u.NewCharge(unreadKnown, ""), u.Limit() / userPart
	}
	return u.NewCharge(unreadKnown, f.Caller), u.Limit() / userPart
}
