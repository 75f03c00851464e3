package source_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestListsUseSeparateConnections checks that a whole LIST uses HTTP/1.1 and closes its connection,
// and that a page uses HTTP/1.1 and leaves the connection open. A WATCH must use HTTP/2. If the
// server supports only HTTP/2, all requests must use HTTP/2. Such a server may end or accept the
// TLS handshake of an HTTP/1.1 client.
func TestListsUseSeparateConnections(t *testing.T) {
	for _, tc := range []struct {
		name      string
		onlyHTTP2 bool
		protocols []string // what a server with only HTTP/2 offers to an HTTP/1.1 client
		want      []string
	}{
		{"both", false, nil, []string{"HTTP/1.1 close", "HTTP/1.1", "HTTP/2.0"}},
		{"only HTTP/2", true, []string{"none"}, []string{"HTTP/2.0", "HTTP/2.0", "HTTP/2.0"}},
		{"only HTTP/2, for any protocol", true, nil, []string{"HTTP/2.0", "HTTP/2.0", "HTTP/2.0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				how := r.Proto
				if r.Close {
					how += " close"
				}
				got = append(got, how)
				if r.URL.Query().Has("watch") {
					answer(w, http.StatusOK, wire.ContentTypeJSON, "")
					return
				}
				answer(w, http.StatusOK, wire.ContentTypeJSON, podList)
			}))
			srv.EnableHTTP2 = true
			srv.Config.ErrorLog = log.New(io.Discard, "", 0) // the server would log refused handshakes
			srv.Config.Protocols = &http.Protocols{}
			srv.Config.Protocols.SetHTTP1(!tc.onlyHTTP2)
			srv.Config.Protocols.SetHTTP2(true)
			srv.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				if tc.onlyHTTP2 && !slices.Contains(hello.SupportedProtos, "h2") {
					// Go's server accepts a client that does not offer h2. Other servers end the handshake of such
					// a client (protocols is "none"), or notice after the handshake that it uses HTTP/1.1 (nil).
					return &tls.Config{Certificates: srv.TLS.Certificates, NextProtos: tc.protocols}, nil
				}
				return nil, nil
			}}
			srv.StartTLS()
			defer srv.Close()
			src, err := source.New(&rest.Config{Host: srv.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, pods, source.Options{})
			check.NoError(t, err)
			defer src.CloseIdleConnections()
			for _, o := range []metav1.ListOptions{{}, {Limit: 2}} {
				list, err := src.List(t.Context(), o)
				check.NoError(t, err)
				check.Equal(t, readAll(t, list), 2, "items")
				list.Close()
			}
			watch, err := src.Watch(t.Context(), metav1.ListOptions{})
			check.NoError(t, err)
			watch.Close()
			if !slices.Equal(got, tc.want) {
				t.Errorf("the server saw %q, want %q", got, tc.want)
			}
		})
	}
}

// TestListsThatGetNoAnswer checks when LISTs change from their own HTTP/1.1 client to the WATCHes'
// client, which uses HTTP/2. If the connection of the very first LIST ends without a response, this
// LIST is repeated immediately over HTTP/2. If the first LIST waits for HeaderTimeout, it fails,
// and the next LIST uses HTTP/2. After a successful LIST over HTTP/1.1, LISTs change if one LIST
// gets the status 505, or if three LISTs in a row get no response.
func TestListsThatGetNoAnswer(t *testing.T) {
	const closes, hangs, refuses, answers = 'c', 'h', 'r', 'a'
	for name, tc := range map[string]struct {
		// what the server does to each LIST over HTTP/1.1; the last letter applies to all further LISTs
		http1 string
		want  string // the HTTP version of each LIST's response, or - for no response
	}{
		"never":             {"c", "222"},
		"never, hanging":    {"h", "-22"},
		"refused":           {"ar", "122"},
		"not any more":      {"ac", "1--22"},
		"now and then":      {"acacca", "1-1--1"},
		"hanging after all": {"ah", "1---2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, http1 := "", tc.http1
				release := make(chan struct{})
				srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					how := answers
					if r.ProtoMajor == 1 {
						if how = rune(http1[0]); len(http1) > 1 {
							http1 = http1[1:]
						}
					}
					switch how {
					case closes:
						panic(http.ErrAbortHandler)
					case refuses:
						answer(w, http.StatusHTTPVersionNotSupported, "text/plain", "HTTP/2, please")
					case hangs:
						<-release
					default:
						got += string('0' + rune(r.ProtoMajor))
						answer(w, http.StatusOK, wire.ContentTypeJSON, podList)
					}
				}))
				l := testenv.Listen()
				srv.Listener, srv.EnableHTTP2 = l, true
				srv.StartTLS()
				defer srv.Close()
				defer close(release)
				src, err := source.New(&rest.Config{Host: "https://pipe", Dial: l.Dial, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, pods, source.Options{})
				check.NoError(t, err)
				defer src.CloseIdleConnections()
				for range tc.want {
					list, err := src.List(t.Context(), metav1.ListOptions{})
					if err != nil {
						got += "-"
						continue
					}
					readAll(t, list)
					list.Close()
				}
				check.Equal(t, got, tc.want, "answered by")
			})
		})
	}
}

// TestListsWithoutAServer checks that a LIST is not sent a second time if no server accepts
// connections.
func TestListsWithoutAServer(t *testing.T) {
	dials := 0
	src, err := source.New(&rest.Config{Host: "https://127.0.0.1:1", Dial: func(context.Context, string, string) (net.Conn, error) {
		dials++
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}}, pods, source.Options{})
	check.NoError(t, err)
	for n := range 5 {
		if _, err := src.List(t.Context(), metav1.ListOptions{}); !errors.Is(err, syscall.ECONNREFUSED) || dials != n+1 {
			t.Fatalf("%d connections for %d LISTs: %v", dials, n+1, err)
		}
	}
}
