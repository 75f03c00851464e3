package secure

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// status returns the status code of the response of a handler behind LocalOnly.
func status(r *http.Request) int {
	w := httptest.NewRecorder()
	LocalOnly(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
	return w.Code
}

// TestHost checks that a request to a loopback address must name this machine.
func TestHost(t *testing.T) {
	loopback := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}
	for _, tc := range []struct {
		host string
		at   net.Addr
		want int
	}{
		{"localhost", loopback, 200}, {"localhost:8080", loopback, 200}, {"127.0.0.1:8080", loopback, 200},
		{"127.0.0.1", loopback, 200}, {"[::1]:8080", loopback, 200}, {"[::1]", loopback, 200},
		{"evil.example:8080", loopback, 403}, {"localhost.evil.example", loopback, 403}, {"127.0.0.1.evil.example:80", loopback, 403}, {"", loopback, 403},
		{"evil.example", &net.TCPAddr{IP: net.IPv6loopback, Port: 80}, 403},
		{"evil.example", &net.TCPAddr{IP: net.ParseIP("::ffff:127.0.0.9"), Port: 80}, 403},
		{"debug.example", &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80}, 200},
		{"debug.example", &net.UnixAddr{Name: "/run/debug", Net: "unix"}, 200},
		{"debug.example", nil, 200},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = tc.host
		if tc.at != nil {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, tc.at))
		}
		check.Equal(t, status(r), tc.want, "%q at %v gets", tc.host, tc.at)
	}
}

// TestOrigin checks that a web page of another origin cannot write. Programs can, because they send
// no Origin.
func TestOrigin(t *testing.T) {
	for _, tc := range []struct {
		method, header, value string
		want                  int
	}{
		{http.MethodPost, "Origin", "http://evil.example", 403},
		{http.MethodDelete, "Origin", "http://localhost:9999", 403},
		{http.MethodPost, "Sec-Fetch-Site", "cross-site", 403},
		{http.MethodPost, "Sec-Fetch-Site", "same-site", 403},
		{http.MethodPost, "Sec-Fetch-Site", "same-origin", 200},
		{http.MethodPost, "Origin", "http://localhost:8080", 200},
		{http.MethodPost, "User-Agent", "kubectl", 200},
		{http.MethodGet, "Origin", "http://evil.example", 200}, // the page cannot read the response
	} {
		r := httptest.NewRequest(tc.method, "/", nil)
		r.Host = "localhost:8080"
		r.Header.Set(tc.header, tc.value)
		check.Equal(t, status(r), tc.want, "%s with %s: %s gets", tc.method, tc.header, tc.value)
	}
}
