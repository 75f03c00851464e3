package proxy

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/serve/watchcache"
	"github.com/weirproject/weir/proxy/internal/review"
)

// refuse answers a request with the proxy's own error (why), and records the refusal in the audit
// log. The upstream cannot record the refusal, because it does not receive the request. refuse
// first releases the seat and the slot of the request, its places among the running requests.
func (s *Server) refuse(a *responseWriter, r *http.Request, why error) {
	if s.auditor != nil && !queryTooLong(r.URL) { // the proxy does not parse a longer query
		attrs := s.unreviewedAttributes(r, request.InfoOf(r.Method, r.URL))
		if rec := s.auditor.Refused(r, attrs, why, time.Now()); rec != nil {
			rec.AddID(a.Header())
			a.record(rec, r)
		}
	}
	a.leave()
	a.chargeUnread(0)
	watchcache.WriteError(a, r, why)
}

// maxBufferedError bounds the body of a forwarded error that is buffered, in bytes. When the body
// has been buffered, its request no longer counts as in progress.
const maxBufferedError = 16 << 10

// bufferError reads the body of a forwarded error, if the body is small. It then releases the seat
// of the request (its place among the requests in progress), because the upstream has finished its
// work. With a larger body, the request occupies the seat until its client has read the error.
func (a *responseWriter) bufferError(resp *http.Response) {
	if resp.StatusCode < http.StatusBadRequest || resp.ContentLength > maxBufferedError {
		return
	}
	// A server behind the upstream may send an error body that never ends.
	if resp.ContentLength < 0 && mayBeOfBackend(resp.Request.URL.Path) {
		return
	}
	from := resp.Body
	body, err := io.ReadAll(io.LimitReader(from, maxBufferedError+1))
	if err == nil && len(body) <= maxBufferedError {
		a.leave()
		a.chargeUnread(int64(cap(body)))
		resp.Body = io.NopCloser(bytes.NewReader(body))
		_ = from.Close()
		return
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), from), from}
}

// refuseUnread refuses a request whose body has not been read. It first reads and drops the body.
// It answers with the given error (why), or with the error of discardBody if reading fails.
func (s *Server) refuseUnread(a *responseWriter, r *http.Request, why error) {
	if err := s.discardBody(a, r); err != nil {
		why = err
	}
	s.refuse(a, r, why)
}

// unreviewedAttributes returns the attributes of a request, without a review. The user is set only
// if the request has a valid certificate or a token that was reviewed before.
func (s *Server) unreviewedAttributes(r *http.Request, info *request.Info) *authorizer.AttributesRecord {
	who, _ := s.cachedCaller(r)
	return review.Attributes(&request.Request{Info: *info}, who)
}
