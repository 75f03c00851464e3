package debug

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestRebinding checks that on a loopback address the handler refuses requests whose Host is a name
// other than localhost. Otherwise a malicious web page whose host name resolves to this address
// could read the data.
func TestRebinding(t *testing.T) {
	web := httptest.NewServer(Handler())
	t.Cleanup(web.Close)
	for host, want := range map[string]int{"": http.StatusOK, "localhost": http.StatusOK, "evil.example": http.StatusForbidden} {
		for _, path := range []string{"/", "/page.js", "/informers"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+path, nil)
			check.NoError(t, err)
			r.Host = host
			resp, err := http.DefaultTransport.RoundTrip(r)
			check.NoError(t, err)
			if resp.Body.Close(); resp.StatusCode != want {
				t.Errorf("%s of %q is %s", path, host, resp.Status)
			}
		}
	}
}
