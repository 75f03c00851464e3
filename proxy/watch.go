package proxy

import (
	"context"
	"net/http"
	"time"

	"github.com/weirproject/weir/internal/serve/watchcache"
	"github.com/weirproject/weir/proxy/internal/review"
	"github.com/weirproject/weir/proxy/internal/seats"
)

// lastWriteTimeout bounds the write in progress when a watch is revoked.
const lastWriteTimeout = time.Second

// beginWatch begins to serve a WATCH. It leaves in a.rest what goes on until the WATCH ends or its
// caller loses the permission.
func (s *Server) beginWatch(a *responseWriter, w http.ResponseWriter, r *http.Request, rq *servedRead) {
	a.onEnd(rq.Watch())
	a.onEnd(s.servedWatches.add(r, rq.Request, rq.who))
	ctx, cancel := context.WithCancel(r.Context())
	a.onEnd(cancel)
	by, part := s.authz.PermissionOf(rq.who, rq.Request)
	check := s.rechecker.Watch(r, rq.who, by, part, rq.decision == review.Allow, func() {
		s.revoked.Add(1)
		cancel()
		// The client may be one that reads nothing.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(lastWriteTimeout))
	})
	a.onEnd(check.Leave)
	release, ok := s.acquireStart(ctx, rq)
	if !ok {
		watchcache.WriteError(w, r, seats.ErrTooManyStarts)
		a.countRejected()
		return
	}
	defer release()
	a.rest = rq.session.Cache().Begin(w, r.WithContext(ctx), rq.Request)
}
