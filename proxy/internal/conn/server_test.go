package conn

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// startListening starts a server with the bounds that a proxy has by default.
func startListening(t *testing.T, h http.HandlerFunc) *Server {
	t.Helper()
	certificate, err := SelfSigned("", "127.0.0.1:0", nil, slog.New(slog.DiscardHandler))
	check.NoError(t, err)
	s, err := Listen("127.0.0.1:0", &Config{
		Handler: h, Certificate: certificate, Heads: NewHeads(), Limit: 100,
		Header: time.Minute, Idle: time.Minute, Ping: time.Minute, Pong: time.Minute, Log: slog.New(slog.DiscardHandler),
	})
	check.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Serve()
	}()
	t.Cleanup(func() {
		if err := s.End(t.Context()); err != nil { // t.Context has ended, so End does not wait
			t.Error(err)
		}
		<-ended
	})
	return s
}

// TestBrokenConnectionIsReleased checks that the memory of a connection is released when the
// connection ends, even with an unread response.
func TestBrokenConnectionIsReleased(t *testing.T) {
	accepted := make(chan weak.Pointer[Conn], 1)
	s := startListening(t, func(w http.ResponseWriter, r *http.Request) {
		accepted <- weak.Make(Of(r))
		_, _ = io.WriteString(w, "unread")
	})
	client, err := tls.Dial("tcp", s.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	check.NoError(t, err)
	fmt.Fprint(client, http2.ClientPreface)
	framer := http2.NewFramer(client, client)
	check.NoError(t, framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
	var head strings.Builder
	enc := hpack.NewEncoder(&head)
	for _, field := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "x"}, {":path", "/"}} {
		check.NoError(t, enc.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}))
	}
	check.NoError(t, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte(head.String()), EndStream: true, EndHeaders: true}))
	for {
		frame, err := framer.ReadFrame()
		check.NoError(t, err)
		if frame.Header().Type == http2.FrameHeaders {
			break
		}
	}
	c := <-accepted
	check.NoError(t, client.Close())
	testenv.Eventually(t, t.Context(), "the memory of the connection is released", func() bool {
		runtime.GC()
		return c.Value() == nil
	})
}

// TestServerBounds checks that the HTTP servers have timeouts and a bound for heads.
func TestServerBounds(t *testing.T) {
	s := startListening(t, func(http.ResponseWriter, *http.Request) {})
	for _, server := range []*http.Server{s.first, s.second} {
		if server.ReadHeaderTimeout <= 0 || server.IdleTimeout <= 0 || server.HTTP2.SendPingTimeout <= 0 || server.MaxHeaderBytes != maxHeader {
			t.Errorf("%+v", server)
		}
	}
}
