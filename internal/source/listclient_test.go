package source_test

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/source"
	"github.com/weirproject/weir/internal/wire"
)

// TestListsGoApart: a LIST goes by HTTP/1.1 and ends its connection, pages keep theirs, a WATCH
// goes by HTTP/2; and a server that speaks HTTP/2 alone gets it all that way.
func TestListsGoApart(t *testing.T) {
	for _, tc := range []struct {
		name      string
		onlyHTTP2 bool
		want      []string
	}{
		{"both", false, []string{"HTTP/1.1 close", "HTTP/1.1", "HTTP/2.0"}},
		{"only HTTP/2", true, []string{"HTTP/2.0", "HTTP/2.0", "HTTP/2.0"}},
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
			srv.Config.ErrorLog = log.New(io.Discard, "", 0) // it tells of refused handshakes
			srv.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				if tc.onlyHTTP2 && !slices.Contains(hello.SupportedProtos, "h2") {
					// Go's own servers let such clients in; others refuse them like this.
					return &tls.Config{Certificates: srv.TLS.Certificates, NextProtos: []string{"none"}}, nil
				}
				return nil, nil
			}}
			srv.StartTLS()
			defer srv.Close()
			src, err := source.New(&rest.Config{Host: srv.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, pods, source.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer src.CloseIdleConnections()
			for _, o := range []source.ListOptions{{}, {Limit: 2}} {
				list, err := src.List(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				if n := readAll(t, list); n != 2 {
					t.Errorf("%d items, want 2", n)
				}
				list.Close()
			}
			watch, err := src.Watch(t.Context(), source.WatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
			watch.Close()
			if !slices.Equal(got, tc.want) {
				t.Errorf("the server saw %q, want %q", got, tc.want)
			}
		})
	}
}
