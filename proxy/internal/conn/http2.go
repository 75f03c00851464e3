package conn

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"net"
	"net/http"
	"slices"
	"sync"

	"golang.org/x/net/http2"
)

// followHTTP2 makes a server pass all HTTP/2 connections through followStreams. The HTTP/2 server
// inside net/http accepts only a *tls.Conn, so its frames cannot be observed.
// golang.org/x/net/http2 is the same server and accepts any net.Conn.
func followHTTP2(server *http.Server) error {
	by := &http2.Server{} // server.HTTP2 configures it
	if err := http2.ConfigureServer(server, by); err != nil {
		return err
	}
	server.TLSNextProto["h2"] = func(hs *http.Server, conn *tls.Conn, h http.Handler) {
		opts := &http2.ServeConnOpts{BaseConfig: hs, Handler: h}
		// net/http passes the context of the connection with this method.
		if b, ok := h.(interface{ BaseContext() context.Context }); ok {
			opts.Context = b.BaseContext()
		}
		own := *by // see onIdle
		own.ServeConn(followStreams(conn, &own), opts)
	}
	return nil
}

// http2Conn observes the frames of an HTTP/2 connection. It reports its streams, and the bytes of
// an incomplete head, to the Conn below it. It does not change the bytes that it reads and writes.
type http2Conn struct {
	*tls.Conn
	client *Conn
	server *http2.Server // of this connection alone, because onIdle changes it

	in, out frameScan   // in is for the goroutine that reads, out for the one that writes
	block   headerBlock // used by the reading goroutine
	charged int64       // bytes of block that growHead has charged
	of      uint32      // the stream of block
	prefix  int         // bytes before block's fragment in this frame
	text    int         // bytes of the fragment that are still to be read
	refused bool        // there is no room for the stream, or for its head

	mu sync.Mutex
	// Streams that have not ended, in ascending order: up to maxStreams, and those that the server
	// will refuse.
	open   []uint32
	newest uint32 // the largest stream number that the client has used
	gone   bool   // the server has sent GOAWAY and ignores later streams
	broken bool   // a read or a write has failed
	// ignored counts the streams after GOAWAY. owed counts the PING and SETTINGS frames that the
	// server has not acknowledged yet.
	ignored, owed int
}

// followStreams returns the connection that the HTTP/2 server must use instead of conn.
func followStreams(conn *tls.Conn, server *http2.Server) net.Conn {
	hc := &http2Conn{Conn: conn, client: connOf(conn), server: server}
	hc.in.left = len(http2.ClientPreface)
	hc.in.onHeader, hc.in.onPayload = hc.received, hc.readBlock
	hc.out.onHeader, hc.out.onPayload = hc.sent, func(frameHeader, []byte) {}
	return hc
}

// Read reads from the connection, and observes the client's frames.
func (hc *http2Conn) Read(p []byte) (int, error) {
	n, err := hc.Conn.Read(p)
	if hc.in.scan(p[:n]); hc.refused {
		n, err = 0, errHeadTooLarge
	}
	hc.breaks(err)
	return n, err
}

// Write writes to the connection, and observes the server's frames.
func (hc *http2Conn) Write(p []byte) (int, error) {
	n, err := hc.Conn.Write(p)
	hc.out.scan(p[:n])
	hc.breaks(err)
	return n, err
}

// breaks records that the connection ends, if err is not nil.
func (hc *http2Conn) breaks(err error) {
	if err == nil {
		return
	}
	hc.mu.Lock()
	defer hc.mu.Unlock()
	hc.broken = true
}

// onIdle prevents the server from starting the IdleTimeout timer for a connection that ends. The
// server calls onIdle in its goroutine when the last stream has ended. When a connection ends with
// open streams, the server first stops the timer and then ends the streams, which would start the
// timer again. The timer would keep the connection's memory for two minutes.
func (hc *http2Conn) onIdle() {
	hc.mu.Lock()
	defer hc.mu.Unlock()
	if hc.broken || hc.gone {
		hc.server.IdleTimeout = 0 // starts no timer
	}
}

// received observes a frame header of the client.
func (hc *http2Conn) received(f frameHeader) {
	hc.mu.Lock()
	defer hc.mu.Unlock()
	switch f.kind {
	case http2.FrameHeaders:
		if hc.charged > 0 && !slices.Contains(hc.open, hc.of) { // the server ignores that stream
			hc.client.ignoreHead(hc.of)
		}
		hc.begin(f.stream)
		hc.of = f.stream
		hc.block, hc.charged, hc.prefix, hc.text = headerBlock{}, 0, 0, f.length
		if f.flags.Has(http2.FlagHeadersPriority) {
			hc.prefix += 5
		}
		if f.flags.Has(http2.FlagHeadersPadded) {
			hc.prefix++
		}
	case http2.FrameContinuation:
		hc.prefix, hc.text = 0, f.length
	case http2.FrameRSTStream:
		hc.end(f.stream, true)
	case http2.FramePing, http2.FrameSettings:
		if !f.flags.Has(http2.FlagPingAck) { // SETTINGS has the same flag
			if hc.owed++; hc.owed > maxUnknownOwed {
				hc.client.flooded()
			}
		}
	}
}

// begin adds a stream, unless the stream is open already or the server ignores it. The caller holds
// the lock.
func (hc *http2Conn) begin(stream uint32) {
	switch {
	case stream <= hc.newest:
	case !hc.gone:
		hc.newest, hc.open = stream, append(hc.open, stream)
		hc.refused = hc.refused || !hc.client.openStream()
	default:
		if hc.ignored++; hc.ignored > maxUnknownStreams {
			hc.client.flooded()
		}
	}
}

// readBlock counts the memory of a request's head, from its first byte until its request begins.
// The server decodes the head while it is received.
func (hc *http2Conn) readBlock(f frameHeader, p []byte) {
	if f.kind != http2.FrameHeaders && f.kind != http2.FrameContinuation {
		return
	}
	if hc.prefix > 0 {
		if hc.text == f.length && f.kind == http2.FrameHeaders && f.flags.Has(http2.FlagHeadersPadded) {
			hc.text -= int(p[0]) // the padding is at the end
		}
		n := min(hc.prefix, len(p))
		hc.prefix -= n
		hc.text -= n
		p = p[n:]
	}
	p = p[:max(min(hc.text, len(p)), 0)]
	hc.text -= len(p)
	hc.block.write(p)
	if more := hc.block.memory() - smallHead - hc.charged; more > 0 {
		hc.charged += more
		hc.refused = hc.refused || !hc.client.growHead(f.stream, more, hc.block.fields)
	}
}

// sent observes a frame header of the server.
func (hc *http2Conn) sent(f frameHeader) {
	ends := (f.kind == http2.FrameData || f.kind == http2.FrameHeaders) && f.flags.Has(http2.FlagDataEndStream)
	hc.mu.Lock()
	defer hc.mu.Unlock()
	switch {
	case ends, f.kind == http2.FrameRSTStream:
		hc.end(f.stream, false)
	case f.kind == http2.FramePing || f.kind == http2.FrameSettings:
		if f.flags.Has(http2.FlagPingAck) {
			hc.owed--
		}
	case f.kind == http2.FrameGoAway:
		hc.gone = true
		i, _ := slices.BinarySearch(hc.open, f.last+1)
		hc.client.endStreams(false, hc.open[i:]...)
		hc.open = hc.open[:i]
	}
}

// end removes a stream that has ended. The caller holds the lock.
func (hc *http2Conn) end(stream uint32, reset bool) {
	if i := slices.Index(hc.open, stream); i >= 0 {
		hc.open = slices.Delete(hc.open, i, i+1)
		hc.client.endStreams(reset, stream)
	}
}

// frameHeader is the header of an HTTP/2 frame.
type frameHeader struct {
	kind   http2.FrameType
	flags  http2.Flags
	length int // of the payload
	stream uint32
	last   uint32 // of GOAWAY: the last stream that the server processes
}

const (
	frameHeaderBytes = 9
	goAwayBytes      = frameHeaderBytes + 4 // including the last stream
)

// frameScan finds the frames in one direction of a connection. It accepts the bytes in pieces of
// any size.
type frameScan struct {
	onHeader  func(frameHeader)
	onPayload func(frameHeader, []byte) // gets a part of a payload, never empty

	head  [goAwayBytes]byte
	have  int
	frame frameHeader
	left  int // bytes of the payload of frame
}

// scan processes the next bytes of the connection.
func (fs *frameScan) scan(p []byte) {
	for len(p) > 0 {
		if fs.left > 0 {
			n := min(fs.left, len(p))
			fs.left -= n
			fs.onPayload(fs.frame, p[:n])
			p = p[n:]
			continue
		}
		n := copy(fs.head[fs.have:fs.want()], p)
		fs.have += n
		p = p[n:]
		if fs.have < frameHeaderBytes || fs.have < fs.want() {
			continue
		}
		fs.frame = fs.parse()
		fs.left = max(fs.frame.length-(fs.have-frameHeaderBytes), 0)
		fs.have = 0
		fs.onHeader(fs.frame)
	}
}

// want returns how many bytes of a frame's start scan collects before it calls parse.
func (fs *frameScan) want() int {
	if fs.have >= frameHeaderBytes && http2.FrameType(fs.head[3]) == http2.FrameGoAway && fs.head[2] >= 8 {
		return goAwayBytes
	}
	return frameHeaderBytes
}

func (fs *frameScan) parse() frameHeader {
	h := frameHeader{
		length: int(fs.head[0])<<16 | int(fs.head[1])<<8 | int(fs.head[2]),
		kind:   http2.FrameType(fs.head[3]), flags: http2.Flags(fs.head[4]), stream: binary.BigEndian.Uint32(fs.head[5:]) & (1<<31 - 1),
	}
	if fs.have == goAwayBytes {
		h.last = binary.BigEndian.Uint32(fs.head[frameHeaderBytes:]) & (1<<31 - 1)
	}
	return h
}
