package watchcache

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/core/compress"
	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/serve/budget"
)

// Payer identifies a share of a memory budget. A response is charged to this share while it waits
// for the client to read it.
type Payer struct {
	Budget *budget.Budget
	Level  int
	Share  string
	// Most is the number of bytes that the share may use of the budget; 0 or less: no bound. While the
	// share uses more than half of Most, responses are not compressed.
	Most int64
}

type payerKey struct{}

// WithPayer returns the context of a request. The unread response of a LIST or GET, and the buffers
// of a compressed WATCH, are charged to p. Without a Payer, these bytes are not counted.
func WithPayer(ctx context.Context, p *Payer) context.Context {
	return context.WithValue(ctx, payerKey{}, p)
}

// payerOf returns the Payer of a request, or nil.
func payerOf(ctx context.Context) *Payer {
	p, _ := ctx.Value(payerKey{}).(*Payer)
	return p
}

const unreadRetrySeconds = 1

// ErrUnread is the error with code 429 for a request whose response would exceed the limit of
// unread response bytes.
var ErrUnread = apierrors.NewTooManyRequests("The caller's unread responses have used up their memory, please try again later.", unreadRetrySeconds)

// charge charges n bytes to p, and returns ErrUnread if the budget has no room. It returns nil for
// a nil Payer.
func (p *Payer) charge(n int64) (*budget.Charge, error) {
	if p == nil {
		return nil, nil
	}
	c, err := p.Budget.Take(p.Level, p.Share, n)
	if err != nil {
		return nil, ErrUnread
	}
	return c, nil
}

// affords reports whether p's share uses at most half of p.Most after n more bytes.
func (p *Payer) affords(n int64) bool {
	return p == nil || p.Share == "" || p.Most <= 0 || p.Budget.ShareBytes(p.Level, p.Share)+n <= p.Most/2
}

// gzipAbove is the size in bytes above which a LIST body is gzipped for clients that accept it.
const gzipAbove = 128 << 10

// sender writes the body of a response to its client in pieces. Each write must end within the
// deadline. After a call of compress, the sender compresses the body.
type sender struct {
	w        http.ResponseWriter
	deadline *writeDeadline
	maxWrite int                  // largest single write, in bytes
	gzip     *compress.GzipWriter // nil: not compressed
}

func (s *sender) Write(p []byte) (n int, err error) {
	if err := s.deadline.begin(); err != nil {
		return 0, err
	}
	defer s.deadline.done() // time spent between two writes is not the client's fault
	to := io.Writer(s.w)
	if s.gzip != nil {
		to = s.gzip
	}
	for len(p) > 0 && err == nil {
		m := 0
		m, err = to.Write(p[:min(len(p), s.maxWrite)])
		n, p = n+m, p[m:]
	}
	s.deadline.wrote(n)
	return n, err
}

// gzipBytes is the measured size of a GzipWriter.
const gzipBytes = 800 << 10

// gzipWriters pools compressors of the fastest level, because most clients have a fast network.
var gzipWriters = sync.Pool{New: func() any { return compress.NewFastGzipWriter(io.Discard) }}

// compress starts a gzip member.
func (s *sender) compress() {
	s.gzip = gzipWriters.Get().(*compress.GzipWriter)
	s.gzip.Reset(s.w)
}

// release releases the compressor, if there is one.
func (s *sender) release() {
	if s.gzip != nil {
		s.gzip.Reset(io.Discard)
		gzipWriters.Put(s.gzip)
		s.gzip = nil
	}
}

// buffers pools buffers of gzipAbove bytes for LIST bodies.
var buffers = sync.Pool{New: func() any { return bufio.NewWriterSize(io.Discard, gzipAbove) }}

// body is the body of a LIST. A body that fits into its buffer is sent uncompressed, with a
// Content-Length. A larger body is streamed, so memory is bounded by the buffer.
type body struct {
	*bufio.Writer
	out         sender
	ctx         context.Context // of the request
	acceptsGzip bool            // the client accepts gzip
	started     bool            // the header was written
	clientGone  bool
	payer       *Payer // pays for the body's memory; nil: memory is not counted
	charge      *budget.Charge
	scratch     int64 // bytes charged for other buffers, see hold
}

// newBody returns the body of a LIST. page is the memory of the LIST's page in bytes. The caller
// must call end. If the budget has no room, newBody returns ErrUnread.
func (c *Cache) newBody(w http.ResponseWriter, r *http.Request, page int64) (*body, error) {
	p := payerOf(r.Context())
	charge, err := p.charge(gzipAbove + page)
	if err != nil {
		return nil, err
	}
	b := &body{
		Writer: buffers.Get().(*bufio.Writer), out: sender{w: w, deadline: c.readWrites.start(w), maxWrite: gzipAbove},
		ctx: r.Context(), acceptsGzip: request.AcceptsGzip(r.Header), payer: p, charge: charge,
	}
	b.Reset(unbuffered{b})
	b.out.deadline.beginState(listRate)
	return b, nil
}

// hold ensures that at least n bytes are charged for the buffers for single objects. n is the
// current size of these buffers. If the budget has no room, hold returns ErrUnread.
func (b *body) hold(n int) error {
	more := int64(n) - b.scratch
	if b.charge == nil || more <= 0 {
		return nil
	}
	if b.charge.Grow(more) != nil {
		return ErrUnread
	}
	b.scratch += more
	return nil
}

// unbuffered is the writer below the buffer of a body. It writes the buffered bytes to the client.
type unbuffered struct{ *body }

// Write writes nothing if the client has disconnected. It examines the request's context for that,
// because not every ResponseWriter reports a disconnected client. The first Write without a
// Content-Length header means that the body is larger than the buffer.
func (u unbuffered) Write(p []byte) (int, error) {
	b := u.body
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	if !b.started {
		b.out.w.Header().Add("Vary", "Accept-Encoding")
		if b.acceptsGzip && b.affordsGzip() {
			b.out.w.Header().Set("Content-Encoding", "gzip")
			b.out.compress()
		}
		b.start()
	}
	n, err := b.out.Write(p)
	return n, b.sent(err)
}

func (b *body) start() {
	b.started = true
	b.out.w.WriteHeader(http.StatusOK)
}

// sent records in b whether err means that the client has disconnected, and returns err.
func (b *body) sent(err error) error {
	b.clientGone = err != nil && !errors.Is(err, errTooSlow)
	return err
}

// affordsGzip charges the compressor's memory, and reports whether the payer can afford it.
func (b *body) affordsGzip() bool {
	return b.charge == nil || b.payer.affords(gzipBytes) && b.charge.Grow(gzipBytes) == nil
}

// Close writes the rest of the body.
func (b *body) Close() error {
	if !b.started {
		b.out.w.Header().Set("Content-Length", strconv.Itoa(b.Buffered()))
		b.start()
	}
	err := b.Flush()
	if err == nil && b.out.gzip != nil {
		err = b.sent(b.out.deadline.during(b.out.gzip.Close)) // writes the compressor's last bytes
	}
	return err
}

// end releases the buffer, the compressor and the deadline. The caller calls end after an error
// too.
func (b *body) end() {
	b.out.release()
	b.Reset(io.Discard)
	buffers.Put(b.Writer)
	b.Writer = nil
	b.out.deadline.close()
	b.charge.Release()
}
