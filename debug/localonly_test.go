package debug

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestRebinding: what is served on a loopback address is not read by a name of somebody else's that
// leads to it.
func TestRebinding(t *testing.T) {
	web := httptest.NewServer(Handler())
	t.Cleanup(web.Close)
	for host, want := range map[string]int{"": http.StatusOK, "localhost": http.StatusOK, "evil.example": http.StatusForbidden} {
		for _, path := range []string{"/", "/page.js", "/informers"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			resp, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			if resp.Body.Close(); resp.StatusCode != want {
				t.Errorf("%s of %q is %s", path, host, resp.Status)
			}
		}
	}
}

// TestLocalOnly: names count by a loopback address alone.
func TestLocalOnly(t *testing.T) {
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
		r := httptest.NewRequest(http.MethodGet, "/informers", nil)
		r.Host = tc.host
		if tc.at != nil {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, tc.at))
		}
		w := httptest.NewRecorder()
		if Handler().ServeHTTP(w, r); w.Code != tc.want {
			t.Errorf("%q at %v gets %d, want %d", tc.host, tc.at, w.Code, tc.want)
		}
	}
}
