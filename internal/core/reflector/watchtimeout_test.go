package reflector

import (
	"net/http"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestWatchTimeout: the server is asked to end a watch after whole seconds, and no fewer than the
// WatchTimeout, however short that is. 0 would leave it to the server.
func TestWatchTimeout(t *testing.T) {
	for timeout, want := range map[time.Duration]string{500 * time.Millisecond: "1", 1300 * time.Millisecond: "2", time.Minute: "90"} {
		withHarness(t, Config{Mode: List, WatchTimeout: timeout}, func(h *harness) {
			var got string
			h.run(h.list("10", "a@1"), func(rw http.ResponseWriter, r *http.Request) {
				got = r.URL.Query().Get("timeoutSeconds")
				h.events()(rw, r)
			})
			h.wantCurrent("10")
			check.Equal(t, got, want, "%v: timeoutSeconds=", timeout)
		})
	}
}
