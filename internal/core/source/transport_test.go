package source_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
)

// serveTLS starts a server for HTTP/1.1 and HTTP/2. connections counts its connections.
func serveTLS(t *testing.T, h http.HandlerFunc) (cfg *rest.Config, connections *atomic.Int64) {
	t.Helper()
	connections = &atomic.Int64{}
	srv := httptest.NewUnstartedServer(h)
	srv.EnableHTTP2 = true
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return &rest.Config{Host: srv.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, connections
}

func direct(*http.Request) (*url.URL, error) { return nil, nil }
