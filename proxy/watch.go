package proxy

import (
	"context"
	"net/http"
	"time"

	"github.com/weirproject/weir/internal/serve/watchcache"
	"github.com/weirproject/weir/proxy/internal/review"
	"github.com/weirproject/weir/proxy/internal/seats"
)

// lastWriteTimeout bounds the write that is in progress when the proxy revokes a watch, that is,
// ends it because its caller lost the permission.
const lastWriteTimeout = time.Second

// beginWatch starts to serve a WATCH. It stores the rest of the work in a.rest: the function that
// serves the WATCH until it ends or its caller loses the permission. If there are too many starting
// watches, beginWatch instead answers 429.
func (s *Server) beginWatch(a *responseWriter, r *http.Request, rq *servedRead) {
	a.onEnd(rq.Watch())
	a.onEnd(s.servedWatches.add(r, rq.Request, rq.who))
	ctx, cancel := context.WithCancel(r.Context())
	a.onEnd(cancel)
	by, part := s.authz.PermissionOf(rq.who, rq.Request)
	check := s.rechecker.Watch(r, rq.who, by, part, rq.decision == review.Allow, func() {
		s.revoked.Add(1)
		cancel()
		a.limitWrite(lastWriteTimeout) // the write must not block forever: the client may read nothing
	})
	a.onEnd(check.Leave)
	release, ok := s.acquireStart(ctx, rq)
	if !ok {
		watchcache.WriteError(a, r, seats.ErrTooManyStarts)
		a.countRejected()
		return
	}
	defer release()
	a.rest = rq.session.Cache().Begin(a, r.WithContext(ctx), rq.Request)
}
