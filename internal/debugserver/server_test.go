package debugserver

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestAddress: what names no host is of this machine alone.
func TestAddress(t *testing.T) {
	for flag, want := range map[string]string{
		"": "", ":8080": "127.0.0.1:8080", ":0": "127.0.0.1:0", "0.0.0.0:8080": "0.0.0.0:8080", "[::]:8080": "[::]:8080", ":http": "127.0.0.1:http",
	} {
		if got, err := Address(flag); got != want || err != nil {
			t.Errorf("%q is %q, %v; want %q", flag, got, err, want)
		}
	}
	for flag, says := range map[string]string{"here": "missing port in address", ":99999": `no port "99999"`, "a:b:c": "too many colons in address"} {
		if got, err := Address(flag); !errors.Is(err, ErrAddress) || err.Error() != says {
			t.Errorf("%q is %q, %v; want %q", flag, got, err, says)
		}
	}
}

// TestServe serves the page until it is stopped, though a stream is open.
func TestServe(t *testing.T) {
	url, stop, err := Serve(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	resp, err := new(http.Transport).RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, url+"stream", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if first := make([]byte, len("data: ")); resp.StatusCode != http.StatusOK || read(resp.Body, first) != "data: " {
		t.Errorf("%s %q", resp.Status, first)
	}
	stop()
	if _, err := net.Dial("tcp", strings.Trim(strings.TrimPrefix(url, "http:"), "/")); err == nil {
		t.Error("it is served after its end")
	}
	if _, _, err := Serve(t.Context(), "203.0.113.1:1"); err == nil {
		t.Error("it is served on an address of another machine")
	}
}

func read(body io.Reader, into []byte) string {
	n, _ := io.ReadFull(body, into)
	return string(into[:n])
}
