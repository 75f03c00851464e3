package proxy

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/weirproject/weir/internal/serve/budget"
	"github.com/weirproject/weir/internal/serve/watchcache"
)

const (
	// defaultResponseMemory is the default of Options.ResponseMemory. One caller may have a part (one
	// in n) of it; the sources of unknown tokens have newTokensPart together, and sourcePart each.
	defaultResponseMemory = 256 << 20
	userPart              = 2
	newTokensPart         = 4
	sourcePart            = 8
	reservePart           = 4
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

// chargeAnswer has the response to a request with a seat charged, which is about to be forwarded.
// For a read that begins with all that may be read ahead. If the caller has too much already, the
// request waits with its seat, so no more do than there are seats. A part (one in reservePart) of
// the caller's memory is left for what the proxy answers itself. The error is watchcache.ErrUnread.
func (s *Server) chargeAnswer(r *http.Request, a *responseWriter, readsAhead bool) error {
	u, f := s.unread, a.seat.flow
	a.unread = u.charge(f)
	a.onEnd(a.unread.Release)
	if readsAhead {
		a.readAhead = readAhead
	}
	if r.Method != http.MethodGet || u.limit <= 0 {
		return nil
	}
	part := u.limit / userPart / reservePart
	if f.level.bySource() {
		part = u.limit / sourcePart / reservePart
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.opts.timeouts.seat)
	defer cancel()
	if a.unread.Wait(ctx, min(copyBuffer+a.readAhead, part), part) != nil {
		return watchcache.ErrUnread
	}
	return nil
}

// chargeForwarded charges what may be read ahead of a forwarded response, now that its size may be
// known, in place of what chargeAnswer did. The upstream has done its work, so the response is
// passed on in any case.
func (a *responseWriter) chargeForwarded(resp *http.Response) {
	if a.left {
		return
	}
	n := int64(copyBuffer)
	if ahead := min(resp.ContentLength, a.readAhead); ahead >= 0 {
		n += ahead
	} else {
		n += a.readAhead
	}
	a.chargeUnread(n)
}

// chargeUnread charges n bytes for a forwarded response in place of what was charged before.
func (a *responseWriter) chargeUnread(n int64) {
	if a.unread != nil {
		a.unread.Add(n - a.unread.Bytes())
	}
}
