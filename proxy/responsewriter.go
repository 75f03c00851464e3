package proxy

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/serve/budget"
	"github.com/weirproject/weir/internal/serve/watchcache"
	"github.com/weirproject/weir/proxy/internal/conn"
	"github.com/weirproject/weir/proxy/internal/seats"
)

// responseWriter records the response to one request, with what the server knows of the request.
// Only one goroutine uses it at a time.
type responseWriter struct {
	http.ResponseWriter
	// rest is what is left to do once the request has been admitted and looked at, if that may take
	// long. It is called with the smallest stack. nil: nothing.
	rest func()
	ends []func() // called when the request ends, the last one first
	// onCode is called when the response begins; nil: nothing is.
	onCode func()
	// panicked is what the request has made the proxy panic with, set before that; nil: nothing.
	panicked any
	seat     seats.Seat // of a request that has one
	left     bool       // it has left the seat and the slot
	// unread is charged for a forwarded response, and readAhead is how much is read ahead of it.
	// nil: nothing is.
	unread    *budget.Charge
	readAhead int64
	reviewed  *conn.Conn     // if the token of the request is not known yet, until it leaves
	slot      *seats.Slot    // of a long-running request, or one that asks to be upgraded
	head      *budget.Charge // of the head of the request, until slot counts it
	// accepted means that the caller's credential was accepted; isAccepted asks whether it was
	// meanwhile. nil: it does not matter.
	accepted   bool
	isAccepted func() bool
	major      int // of the version of HTTP
	// written counts the bytes of the body.
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

// smallResponse is what the buffers between the proxy and a client take in any case.
const smallResponse = 64 << 10

// reservePart is the part (one in n) of a caller's memory for unread responses that is left for
// what the proxy answers itself.
const reservePart = 4

// onEnd registers f to be called when the request ends. The function that was registered last is
// called first.
func (a *responseWriter) onEnd(f func()) { a.ends = append(a.ends, f) }

// end calls what onEnd was given.
func (a *responseWriter) end() {
	for _, f := range a.ends {
		defer f()
	}
}

// leave gives up the seat and the slot of the request, so that a client that does not read an error
// keeps neither from others.
func (a *responseWriter) leave() {
	a.left = true
	if a.reviewed != nil {
		a.reviewed.EndReview()
		a.reviewed = nil
	}
	a.seat.Release()
	if a.slot != nil {
		a.slot.Release()
	}
}

// responseWriterOf returns the responseWriter below a writer, or nil.
func responseWriterOf(w http.ResponseWriter) *responseWriter {
	for {
		switch inner := w.(type) {
		case *responseWriter:
			return inner
		case interface{ Unwrap() http.ResponseWriter }:
			w = inner.Unwrap()
		default:
			return nil
		}
	}
}

// startCounting counts the request until finish.
func (a *responseWriter) startCounting(m *requestMetrics, r *http.Request, info *request.Info) {
	a.metrics, a.r, a.info, a.begun = m, r, info, time.Now()
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (a *responseWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// recordCode records the first status code that is not informational.
func (a *responseWriter) recordCode(code int) {
	if a.code != 0 || code < 200 && code != http.StatusSwitchingProtocols {
		return
	}
	a.code = code
	if a.onCode != nil {
		a.onCode()
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
	if a.written += int64(len(p)); !a.buffered && a.code >= http.StatusBadRequest {
		a.limitWrite(conn.UnreadTime) // an error that does not fit into the buffer
	}
	return a.ResponseWriter.Write(p)
}

// limitFinalWrite sets a deadline for what is written after the handler has returned. For HTTP/2
// this takes a round to the connection's goroutine, so it is done only if something is buffered.
func (a *responseWriter) limitFinalWrite(r *http.Request) {
	switch {
	case r.ProtoMajor != 1 && !a.buffered:
	case a.written > smallResponse:
		a.limitWrite(seatGrace) // what was sent before may still be under way
	default:
		a.limitWrite(conn.UnreadTime)
	}
}

// limitWrite sets the deadline of writes.
func (a *responseWriter) limitWrite(d time.Duration) {
	// The writers of tests do not support it.
	_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Now().Add(d))
}

// endsConnection reports whether the HTTP/2 connection of a request is closed after its response,
// and notes whether the caller's credential was accepted. As kube-apiserver does, the proxy does
// not let a client without one keep such a connection, on which a request costs the client next to
// nothing (CVE-2023-44487). With a 401 it may be accepted no longer. A client whose token is not
// known yet keeps the connection if the request is to be repeated.
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

// finish counts the request.
func (a *responseWriter) finish() {
	if a.running != nil {
		a.running.Dec()
	}
	labels, dry := a.labels(), dryRunOf(a.r.URL)
	a.metrics.total.WithLabelValues(append([]string{strconv.Itoa(a.code), dry}, labels...)...).Inc()
	a.metrics.duration.WithLabelValues(append([]string{dry}, labels...)...).Observe(time.Since(a.begun).Seconds())
}

// countRejected counts a request that was rejected to protect the proxy.
func (a *responseWriter) countRejected() {
	a.metrics.terminated.WithLabelValues(append([]string{strconv.Itoa(a.code)}, a.labels()...)...).Inc()
}

// chargeAnswer has the response to a request with a seat charged, which is about to be forwarded.
// For a read that begins with all that may be read ahead. If the caller has too much already, the
// request waits with its seat, so no more do than there are seats. A part (one in reservePart) of
// the caller's memory is left for what the proxy answers itself. The error is watchcache.ErrUnread.
func (s *Server) chargeAnswer(r *http.Request, a *responseWriter, readsAhead bool) error {
	charge, most := s.seats.Unread.Charge(a.seat.Flow)
	a.unread = charge
	a.onEnd(a.unread.Release)
	if readsAhead {
		a.readAhead = readAhead
	}
	if r.Method != http.MethodGet || most <= 0 {
		return nil
	}
	part := most / reservePart
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
