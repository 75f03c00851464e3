package conn

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

// handshakeServers are two HTTP servers behind one listener.
type handshakeServers struct {
	first, second http.Server
	client        *http.Client
	addr          string
	ended         chan struct{}
}

func startHandshakeServers(t *testing.T, timeout time.Duration) *handshakeServers {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	certified := httptest.NewUnstartedServer(nil)
	certified.EnableHTTP2 = true
	certified.StartTLS()
	certified.Close()
	sh := &handshakeServers{addr: l.Addr().String(), client: certified.Client(), ended: make(chan struct{})}
	sh.client.Transport.(*http.Transport).DisableKeepAlives = true
	name := func(s string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) })
	}
	for s, server := range map[string]*http.Server{"first": &sh.first, "second": &sh.second} {
		server.Handler, server.ErrorLog = name(s), log.New(io.Discard, "", 0)
	}
	config := certified.TLS.Clone()
	config.NextProtos = []string{"h2", "http/1.1"}
	server := newServer(NewListener(l, 10, 0, NewHeads()), config, timeout)
	server.first, server.second = &sh.first, &sh.second
	go func() {
		defer close(sh.ended)
		server.Serve()
	}()
	t.Cleanup(sh.close)
	return sh
}

func (sh *handshakeServers) close() {
	sh.first.Close()
	sh.second.Close()
	<-sh.ended
}

// get sends a request, and returns the body: the name of the server that has answered.
func (sh *handshakeServers) get(t *testing.T) string {
	t.Helper()
	answer, err := sh.client.Get("https://" + sh.addr)
	check.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.ProtoMajor != 2 {
		t.Errorf("HTTP/%d, %v", answer.ProtoMajor, err)
	}
	return string(body)
}

// TestSecondServerServesAfterClose checks that new connections go to the second server after the
// first is closed. That includes a client that connected before the close, and starts its TLS
// handshake after it.
func TestSecondServerServesAfterClose(t *testing.T) {
	sh := startHandshakeServers(t, time.Minute)
	check.Equal(t, sh.get(t), "first", "answered by")
	early, err := net.Dial("tcp", sh.addr)
	check.NoError(t, err)
	defer early.Close()
	sh.first.Close()
	check.Equal(t, sh.get(t), "second", "answered by")
	conn := tls.Client(early, &tls.Config{RootCAs: sh.client.Transport.(*http.Transport).TLSClientConfig.RootCAs, ServerName: "127.0.0.1"})
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); err != nil || !strings.HasSuffix(string(got), "second") {
		t.Errorf("%q, %v", got, err)
	}
}

// TestPlainHTTP checks that a client that sends HTTP to the HTTPS port receives the 400 of
// net/http.
func TestPlainHTTP(t *testing.T) {
	sh := startHandshakeServers(t, time.Minute)
	answer, err := http.Get("http://" + sh.addr)
	check.NoError(t, err)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusBadRequest {
		t.Error(answer.Status)
	}
}

// TestHandshakeEnds checks that a connection whose client does not start the handshake is closed
// after the timeout, and when the servers close.
func TestHandshakeEnds(t *testing.T) {
	for _, tt := range []struct {
		name    string
		timeout time.Duration
		end     func(*handshakeServers)
	}{
		{"timeout", 10 * time.Millisecond, func(*handshakeServers) {}},
		{"close", time.Hour, (*handshakeServers).close},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sh := startHandshakeServers(t, tt.timeout)
			conn, err := net.Dial("tcp", sh.addr)
			check.NoError(t, err)
			defer conn.Close()
			tt.end(sh)
			if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil {
				t.Errorf("read %d bytes", n)
			}
		})
	}
}
