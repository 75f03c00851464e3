package command

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestAddress checks that an address without a host means loopback.
func TestAddress(t *testing.T) {
	for flag, want := range map[string]string{
		"": "", ":8080": "127.0.0.1:8080", ":0": "127.0.0.1:0", "0.0.0.0:8080": "0.0.0.0:8080", "[::]:8080": "[::]:8080", ":http": "127.0.0.1:http",
	} {
		if got, err := DebugAddress(flag); got != want || err != nil {
			t.Errorf("%q is %q, %v; want %q", flag, got, err, want)
		}
	}
	for flag, says := range map[string]string{"here": "missing port in address", ":99999": `no port "99999"`, "a:b:c": "too many colons in address"} {
		if got, err := DebugAddress(flag); !errors.Is(err, ErrDebugAddress) || err.Error() != says {
			t.Errorf("%q is %q, %v; want %q", flag, got, err, says)
		}
	}
}

// TestServe checks that the page is served until stop is called, even if a client holds a stream
// open.
func TestServe(t *testing.T) {
	url, stop, err := ServeDebugPage(t.Context(), "127.0.0.1:0")
	check.NoError(t, err)
	resp, err := new(http.Transport).RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, url+"stream", nil))
	check.NoError(t, err)
	defer resp.Body.Close()
	if first := make([]byte, len("data: ")); resp.StatusCode != http.StatusOK || read(resp.Body, first) != "data: " {
		t.Errorf("%s %q", resp.Status, first)
	}
	stop()
	if _, err := net.Dial("tcp", strings.Trim(strings.TrimPrefix(url, "http:"), "/")); err == nil {
		t.Error("it is served after its end")
	}
	if _, _, err := ServeDebugPage(t.Context(), "203.0.113.1:1"); err == nil {
		t.Error("it is served on an address of another machine")
	}
}

// TestProfiles checks that the server serves profiles, but not the command line, none that takes
// too long, and none to a page of another web site; and that it refuses a host name that may
// resolve to the loopback address.
func TestProfiles(t *testing.T) {
	web := httptest.NewServer(newDebugServer().Handler)
	defer web.Close()
	get := func(path, host, site string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+"/"+path, nil)
		r.RequestURI = ""
		r.Host = cmp.Or(host, r.Host)
		if site != "" {
			r.Header.Set("Sec-Fetch-Site", site)
		}
		resp, err := new(http.Transport).RoundTrip(r)
		check.NoError(t, err)
		defer resp.Body.Close()
		return resp.StatusCode
	}
	for path, want := range map[string]int{
		"debug/pprof/": http.StatusOK, "debug/pprof/goroutine?debug=1": http.StatusOK, "debug/pprof/cmdline": http.StatusNotFound, "": http.StatusOK,
		"debug/pprof/profile?seconds=1": http.StatusOK, "debug/pprof/profile?seconds=61": http.StatusBadRequest, "debug/pprof/heap?seconds=61": http.StatusBadRequest,
		"debug/pprof/trace?seconds=0.1": http.StatusOK, "debug/pprof/trace?seconds=1e3": http.StatusBadRequest, "debug/pprof/trace?seconds=NaN": http.StatusBadRequest,
	} {
		check.Equal(t, get(path, "", ""), want, "%s", path)
		check.Equal(t, get(path, "evil.example", ""), http.StatusForbidden, "%s of another host", path)
	}
	for site, want := range map[string]int{"cross-site": http.StatusForbidden, "same-site": http.StatusForbidden, "same-origin": http.StatusOK, "none": http.StatusOK} {
		check.Equal(t, get("debug/pprof/goroutine", "", site), want, "a profile for a page of %s", site)
		check.Equal(t, get("", "", site), http.StatusOK, "the page for a link of %s", site)
	}
}

// TestIdle checks that the server closes idle connections and connections whose request body does
// not arrive.
func TestIdle(t *testing.T) {
	for name, tt := range map[string]struct{ request, answer string }{
		"idle":    {"HEAD /page.css HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 200 "},
		"no body": {"GET /informers HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listener, server := testenv.Listen(), newDebugServer()
				go func() { _ = server.Serve(listener) }() // ends with Close
				defer server.Close()
				conn, err := listener.Dial(t.Context(), "", "")
				check.NoError(t, err)
				defer conn.Close()
				if _, err := io.WriteString(conn, tt.request); err != nil {
					t.Fatal(err)
				}
				check.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Hour)))
				if answer, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), tt.answer) {
					t.Errorf("%q, and then %v", answer, err)
				}
			})
		})
	}
}

func read(body io.Reader, into []byte) string {
	n, _ := io.ReadFull(body, into)
	return string(into[:n])
}

// TestWriteTimeout checks that the server closes the connection of a client that does not read, but
// that it serves long profiles.
func TestWriteTimeout(t *testing.T) {
	for name, tt := range map[string]struct {
		path   string
		pause  time.Duration // before the client reads
		served bool
	}{
		"a client that reads nothing": {"/page.js", 2 * writeTimeout, false},
		"a long profile":              {"/debug/pprof/goroutine?seconds=60", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listener, server := testenv.Listen(), newDebugServer()
				go func() { _ = server.Serve(listener) }() // ends with Close
				defer server.Close()
				conn, err := listener.Dial(t.Context(), "", "")
				check.NoError(t, err)
				defer conn.Close()
				_, err = io.WriteString(conn, "GET "+tt.path+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
				check.NoError(t, err)
				time.Sleep(tt.pause)
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					resp.Body.Close()
				}
				check.Equal(t, err == nil, tt.served, "served (%v)", err)
			})
		})
	}
}
