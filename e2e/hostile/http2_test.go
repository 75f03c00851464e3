package hostile

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"strconv"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// field is a header field of a request.
type field struct{ name, value string }

// manyFields returns n fields with different names. Such fields cost a server more memory than
// other fields of the same total size.
func manyFields(n int) []field {
	out := make([]field, n)
	for i := range out {
		out[i] = field{"f" + strconv.FormatInt(int64(i)+36*36, 36), "v"}
	}
	return out
}

// head returns the encoded header block of a request. The block does not use HPACK's dynamic table,
// so it can be sent on every connection.
func head(method, path string, fields ...field) []byte {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	encoder.SetMaxDynamicTableSize(0)
	all := append([]field{{":method", method}, {":scheme", "https"}, {":authority", "localhost"}, {":path", path}}, fields...)
	for _, f := range all {
		// A write to memory does not fail.
		_ = encoder.WriteField(hpack.HeaderField{Name: f.name, Value: f.value})
	}
	return block.Bytes()
}

func bearer(token string) field { return field{"authorization", "Bearer " + token} }

var errNoHTTP2 = errors.New("the server does not speak HTTP/2")

// frameSize is a frame size that every HTTP/2 server must accept.
const frameSize = 16 << 10

// connection is an HTTP/2 connection of an attacker. The attacker answers PINGs and SETTINGS, so
// that the server keeps the connection open, and otherwise ignores the protocol's rules. One
// goroutine reads the connection until it is closed.
type connection struct {
	conn     *tls.Conn
	notes    *notes
	leave    func() bool
	ended    chan struct{} // closed when the reading goroutine has returned
	answered chan struct{} // has an element if a response arrived since the last receive

	mu     sync.Mutex // serializes writes
	framer *http2.Framer
	stream uint32 // ID of the last stream
}

// zeroWindow is a setting that makes the server send only the heads of responses. The server must
// keep the bodies.
var zeroWindow = http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}

// openHTTP2 opens a connection. It is closed by a call of close, or when ctx ends.
func (a *attackers) openHTTP2(ctx context.Context, settings ...http2.Setting) (*connection, error) {
	conn, err := a.dial(ctx, "h2")
	if err != nil {
		return nil, err
	}
	c := &connection{conn: conn, notes: a.notes, ended: make(chan struct{}), answered: make(chan struct{}, 1), framer: http2.NewFramer(conn, conn), stream: 1}
	c.leave = context.AfterFunc(ctx, func() { _ = conn.Close() })
	if conn.ConnectionState().NegotiatedProtocol != "h2" {
		close(c.ended)
		c.close()
		return nil, errNoHTTP2
	}
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	a.running.Go(c.read)
	_, err = conn.Write([]byte(http2.ClientPreface))
	if err == nil {
		err = c.write(func(f *http2.Framer) error { return f.WriteSettings(settings...) })
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// close closes the connection, and waits for its reading goroutine.
func (c *connection) close() {
	c.leave()
	_ = c.conn.NetConn().Close() // closing the TLS connection would send an alert and wait
	<-c.ended
}

func (c *connection) write(frame func(*http2.Framer) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return frame(c.framer)
}

// request starts a stream with a header block. If end is false, the caller sends the body.
func (c *connection) request(block []byte, end bool) (stream uint32, err error) {
	err = c.write(func(f *http2.Framer) error {
		c.stream += 2
		stream = c.stream
		first := block[:min(len(block), frameSize)]
		rest := block[len(first):]
		err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: first, EndStream: end, EndHeaders: len(rest) == 0})
		for err == nil && len(rest) > 0 {
			next := rest[:min(len(rest), frameSize)]
			rest = rest[len(next):]
			err = f.WriteContinuation(stream, len(rest) == 0, next)
		}
		return err
	})
	return stream, err
}

// read reads frames until the connection ends. It records responses and errors in c.notes.
func (c *connection) read() {
	defer close(c.ended)
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = c.write((*http2.Framer).WriteSettingsAck)
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				err = c.write(func(to *http2.Framer) error { return to.WritePing(true, f.Data) })
			}
		case *http2.MetaHeadersFrame:
			if status := f.PseudoValue("status"); status != "" {
				c.notes.received(status)
				select {
				case c.answered <- struct{}{}:
				default:
				}
			}
		case *http2.GoAwayFrame:
			c.notes.ended("GOAWAY " + f.ErrCode.String())
		case *http2.RSTStreamFrame:
			c.notes.ended("RST_STREAM " + f.ErrCode.String())
		}
		if err != nil {
			return
		}
	}
}

// wait waits until the server closes the connection or ctx ends.
func (c *connection) wait(ctx context.Context) {
	select {
	case <-c.ended:
	case <-ctx.Done():
	}
}
