package proxy

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/serve/budget"
	"github.com/weirproject/weir/internal/serve/watchcache"
	"github.com/weirproject/weir/proxy/internal/audit"
	"github.com/weirproject/weir/proxy/internal/conn"
	"github.com/weirproject/weir/proxy/internal/mirror"
	"github.com/weirproject/weir/proxy/internal/review"
	"github.com/weirproject/weir/proxy/internal/seats"
)

// responseWriter records the response to one request, and the server's state for that request. Only
// one goroutine uses it at a time.
type responseWriter struct {
	http.ResponseWriter
	// rest serves the last part of an admitted request whose answer may take long, such as a WATCH.
	// The server calls rest with few stack frames above it, so that a long request uses a small
	// stack. nil: there is no such part.
	rest func()
	ends []func() // called when the request ends, in reverse order
	// onCode is called when the status code of the response is recorded; nil: no call.
	onCode func()
	audit  *audit.Record // nil: the request is not recorded
	failed bool          // a write has failed
	why    mirror.Reason // why the cache does not answer the request
	// panicked is the value with which the request made the proxy panic; it is set before the
	// functions in ends are called. nil: no panic.
	panicked any
	seat     seats.Seat // the seat of the request, if it has one
	left     bool       // the request has left the seat and the slot
	// unread charges the budget of unread responses for a forwarded response. nil: there is no charge.
	// readAhead is how many bytes of the response the transport may read before the client reads them.
	unread    *budget.Charge
	readAhead int64
	// reviewed is set while the token of the request is under review, until leave.
	reviewed *conn.Conn
	// slot is the place of the request among the long-running requests. nil: the request is not
	// long-running and asks for no upgrade.
	slot *seats.Slot
	head *budget.Charge // charges for the head of the request, until slot counts the head
	// accepted means that the caller's credential was accepted. isAccepted checks whether it has
	// been accepted in the meantime; nil: the check is not needed.
	accepted   bool
	isAccepted func() bool
	major      int // HTTP major version
	// written is the number of body bytes written.
	written int64
	// buffered means that the last write may still be in net/http's buffer.
	buffered bool

	metrics *requestMetrics // nil: the request is not counted
	r       *http.Request
	info    *request.Info
	begun   time.Time
	code    int // 0: none yet
	running prometheus.Gauge
}

// httpBufferSize is the size of net/http's response buffer for HTTP/2.
const httpBufferSize = 4 << 10

// smallResponse is how many bytes of a response fit into the buffers between the proxy and a client
// in any case.
const smallResponse = 64 << 10

// Of the memory that a caller may use for unread responses, 1/reservePart is reserved for responses
// from the proxy's cache.
const reservePart = 4

// onEnd registers f to be called when the request ends. The functions are called in reverse order.
func (a *responseWriter) onEnd(f func()) { a.ends = append(a.ends, f) }

// end calls the functions that onEnd registered.
func (a *responseWriter) end() {
	for _, f := range a.ends {
		defer f()
	}
}

// leave releases the seat and the slot of the request, its places among the running requests. It is
// called when the request ends. For an error it is called earlier, so that a client that does not
// read the error does not occupy these places.
func (a *responseWriter) leave() {
	a.left = true
	a.reviewed.EndReview()
	a.reviewed = nil
	a.seat.Release()
	if a.slot != nil {
		a.slot.Release()
	}
}

// record makes the audit record rec also record the response to r.
func (a *responseWriter) record(rec *audit.Record, r *http.Request) {
	a.audit = rec
	a.onEnd(func() { rec.Ended(a.panicked, a.failed, r.Context().Err() != nil) })
}

// startCounting starts to measure the request, and counts it when it ends.
func (a *responseWriter) startCounting(m *requestMetrics, r *http.Request, info *request.Info) {
	a.metrics, a.r, a.info, a.begun = m, r, info, time.Now()
	a.onEnd(a.finish)
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (a *responseWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// recordCode records the first status code that is not informational. When it records the code, it
// also sets Connection: close if the connection must end, and counts a long-running request as
// running.
func (a *responseWriter) recordCode(code int) {
	if a.code != 0 || code < 200 && code != http.StatusSwitchingProtocols {
		return
	}
	a.code = code
	if a.onCode != nil {
		a.onCode()
	}
	if a.audit != nil {
		a.audit.Responded(code)
	}
	if a.endsConnection(code) {
		a.Header().Set("Connection", "close")
	}
	if a.metrics != nil && (code == http.StatusSwitchingProtocols || code < 300 && isLongRunning(a.info)) {
		a.running = a.metrics.running.WithLabelValues(a.labels()...)
		a.running.Inc()
	}
}

func (a *responseWriter) WriteHeader(code int) {
	a.recordCode(code)
	a.ResponseWriter.WriteHeader(code)
}

func (a *responseWriter) Write(p []byte) (int, error) {
	a.recordCode(http.StatusOK)
	a.buffered = len(p) < httpBufferSize
	a.written += int64(len(p))
	// A large error, which does not fit into the buffer, needs a deadline. After leave, a smaller one
	// does too: net/http's buffer for HTTP/1 is half as large.
	if a.code >= http.StatusBadRequest && (!a.buffered || a.left && len(p) > httpBufferSize/2) {
		a.limitWrite(conn.UnreadTime)
	}
	n, err := a.ResponseWriter.Write(p)
	a.failed = a.failed || err != nil
	return n, err
}

// limitFinalWrite sets a deadline for bytes that net/http writes after the handler has returned.
// For HTTP/2, a deadline needs a round trip to the connection's goroutine, so limitFinalWrite sets
// one only if bytes are buffered.
func (a *responseWriter) limitFinalWrite(r *http.Request) {
	switch {
	case r.ProtoMajor != 1 && !a.buffered:
	case a.written > smallResponse:
		a.limitWrite(seatGrace) // earlier writes may not have reached the client yet
	default:
		a.limitWrite(conn.UnreadTime)
	}
}

// limitWrite sets the write deadline to d from now.
func (a *responseWriter) limitWrite(d time.Duration) {
	// The writers of tests do not support deadlines.
	_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Now().Add(d))
}

// endsConnection reports whether the proxy must close the HTTP/2 connection of a request after its
// response with this code. Like kube-apiserver, the proxy closes the connection of a client without
// an accepted credential. Otherwise such a client could send requests on the connection at almost
// no cost (CVE-2023-44487). endsConnection also updates a.accepted, because an accepted credential
// may be invalid after a 401. The connection remains open after a 429 or a server error, because
// the client should then repeat the request.
func (a *responseWriter) endsConnection(code int) bool {
	if a.isAccepted == nil || a.accepted && code != http.StatusUnauthorized {
		return false
	}
	if a.accepted = a.isAccepted(); a.accepted || a.major != 2 {
		return false
	}
	return code != http.StatusTooManyRequests && code < http.StatusInternalServerError
}

// Hijack takes over the connection, for an upgrade.
func (a *responseWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(a.ResponseWriter).Hijack()
	if err == nil {
		a.recordCode(http.StatusSwitchingProtocols)
		a.seat.Release()
	}
	return conn, rw, err
}

// labels returns the values of requestLabels.
func (a *responseWriter) labels() []string {
	n := a.metrics.name(a.r.Method, a.info, a.code)
	scope := scopeOf(a.info)
	return []string{verbOf(a.r, a.info, scope), n.group, n.version, n.resource, n.subresource, scope, component}
}

// finish counts the request and records its duration.
func (a *responseWriter) finish() {
	if a.running != nil {
		a.running.Dec()
	}
	labels, dry := a.labels(), dryRunOf(a.r.URL)
	a.metrics.total.WithLabelValues(append([]string{strconv.Itoa(a.code), dry}, labels...)...).Inc()
	a.metrics.duration.WithLabelValues(append([]string{dry}, labels...)...).Observe(time.Since(a.begun).Seconds())
}

// countRejected counts a request that the proxy rejected to protect itself.
func (a *responseWriter) countRejected() {
	a.metrics.terminated.WithLabelValues(append([]string{strconv.Itoa(a.code)}, a.labels()...)...).Inc()
}

// chargeAnswer adds the response that is about to be forwarded to the memory for unread responses.
// For a GET it charges all bytes that the transport may read ahead. If the caller's unread
// responses already use too much memory, chargeAnswer blocks. The request still counts as in
// progress meanwhile, so the bound on requests in progress also bounds the blocked requests.
// chargeAnswer leaves 1/reservePart of the caller's memory free for the proxy's own answers. If the
// wait is too long, it returns watchcache.ErrUnread.
func (s *Server) chargeAnswer(r *http.Request, a *responseWriter, readsAhead bool) error {
	p := s.seats.Unread.Payer(a.seat.Flow)
	a.unread = p.Budget.NewCharge(p.Level, p.Share)
	a.onEnd(a.unread.Release)
	if readsAhead {
		a.readAhead = readAhead
	}
	if r.Method != http.MethodGet || p.Most <= 0 {
		return nil
	}
	part := p.Most / reservePart
	ctx, cancel := context.WithTimeout(r.Context(), s.opts.timeouts.seat)
	defer cancel()
	if a.unread.Wait(ctx, min(copyBuffer+a.readAhead, part), part) != nil {
		return watchcache.ErrUnread
	}
	return nil
}

// chargeForwarded replaces the charge of chargeAnswer by the number of bytes of the response that
// may be read ahead. By now, the size of the response may be known. chargeForwarded never refuses
// the response, because the upstream has done its work already.
func (a *responseWriter) chargeForwarded(resp *http.Response) {
	if a.left {
		return
	}
	ahead := a.readAhead
	if resp.ContentLength >= 0 {
		ahead = min(ahead, resp.ContentLength)
	}
	a.chargeUnread(copyBuffer + ahead)
}

// chargeUnread sets the charge for a forwarded response to n bytes.
func (a *responseWriter) chargeUnread(n int64) {
	if a.unread != nil {
		a.unread.Add(n - a.unread.Bytes())
	}
}

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
