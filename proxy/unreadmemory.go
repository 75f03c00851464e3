package proxy

import (
	"net/http"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/weirproject/weir/internal/budget"
	"github.com/weirproject/weir/internal/watchcache"
)

const (
	// defaultResponseMemory is the default of Options.ResponseMemory. One caller may have a part (one
	// in n) of it; the sources of unknown tokens have newTokensPart together, and sourcePart each.
	defaultResponseMemory = 256 << 20
	userPart              = 2
	newTokensPart         = 4
	sourcePart            = 8
)

// The levels of unreadMemory.
const (
	unreadKnown = iota
	unreadUnknown
)

// unreadMemory bounds the memory of responses that wait for their clients to read them: those of
// LISTs and GETs, what compresses the beginning of a WATCH, and what is read ahead of a forwarded
// response. The rest of a WATCH is longRunningLimiter's. It is safe for concurrent use.
type unreadMemory struct {
	*budget.Budget
	limit int64
}

func newUnreadMemory(limit int64) unreadMemory {
	return unreadMemory{limit: limit, Budget: budget.New(limit,
		budget.Level{Name: "known", Share: limit / userPart},
		budget.Level{Name: "unknown", Most: limit / newTokensPart, Share: limit / sourcePart},
	)}
}

// payer returns who pays for the responses to a user that the proxy has authenticated. A user that
// runs the cluster has no share, and so all of the memory. nil: there is no bound.
func (u unreadMemory) payer(who user.Info) *watchcache.Payer {
	if u.limit <= 0 {
		return nil
	}
	p := &watchcache.Payer{Budget: u.Budget, Level: unreadKnown, Most: u.limit / userPart}
	if !isSystem(who) {
		p.Share = userKey(who)
	}
	return p
}

// charge returns a charge of no bytes for a forwarded response to a request of a flow.
func (u unreadMemory) charge(f flow) *budget.Charge {
	switch {
	case f.level.bySource():
		return u.NewCharge(unreadUnknown, f.caller)
	case f.level < levelEveryone:
		return u.NewCharge(unreadKnown, "")
	}
	return u.NewCharge(unreadKnown, f.caller)
}

// chargeForwarded charges what may be read ahead of a forwarded response. The error is
// watchcache.ErrUnread, for a read; a write has been done, so its response is passed on in any
// case.
func (a *responseWriter) chargeForwarded(resp *http.Response) error {
	if a.unread == nil || a.left {
		return nil
	}
	n := int64(copyBuffer)
	if ahead := min(resp.ContentLength, a.readAhead); ahead >= 0 {
		n += ahead
	} else {
		n += a.readAhead
	}
	if resp.Request.Method != http.MethodGet {
		a.unread.Add(n)
		return nil
	}
	if a.unread.Grow(n) != nil {
		return watchcache.ErrUnread
	}
	return nil
}
