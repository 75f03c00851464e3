package reflector

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// TestLaggingReplicaOfAQuietResource: lists tell their resourceVersion behind the items, as
// kube-apiserver's of custom resources do, and the last one was of exactly its version, since
// nothing has changed. The next ones come from a replica that lags. They must not be older all the
// same.
func TestLaggingReplicaOfAQuietResource(t *testing.T) {
	withHarness(t, Config{Mode: Pages}, func(h *harness) {
		if h.enc != wire.JSON {
			return
		}
		list := func(rv string, pods ...string) http.HandlerFunc {
			return func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Content-Type", "application/json")
				var items []string
				for _, p := range pods {
					items = append(items, string(h.pod(p)))
				}
				fmt.Fprintf(rw, `{"apiVersion":"v1","items":[%s],"kind":"PodList","metadata":{"resourceVersion":%q}}`, strings.Join(items, ","), rv)
			}
		}
		before, after := list("1000", "a@900", "b@901"), list("1001", "a@900")
		var mu sync.Mutex
		watches := 0
		h.server = func(rw http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			mu.Lock()
			if q.Has("watch") {
				watches++
			}
			n := watches
			mu.Unlock()
			answer := after
			switch {
			case q.Has("watch") && n == 1:
				answer = h.events("-b@1001", "error@410")
			case q.Has("watch") && n == 2:
				answer = h.events("error@410")
			case q.Has("watch"):
				answer = hold
			case n == 0:
				answer = before
			case q.Get("limit") == "1" || n == 1:
				// A probe, or a list before the balancer hands lists to the other replica.
			case q.Get("resourceVersion") == "1001":
				answer = deny(504, "1", metav1.StatusCause{Type: metav1.CauseTypeResourceVersionTooLarge})
			default:
				answer = before
			}
			answer(rw, r)
		}
		c := h.store.Cursor()
		defer c.Close()
		h.run()
		gone := false
		changes := make([]store.Change, 16)
		for range 40 {
			h.advance(time.Second / 2)
			for _, ch := range changes[:c.Next(changes)] {
				if ch.Key() == "n/b" && ch.New != nil && gone {
					t.Error("b, which was deleted, came back")
				}
				gone = gone || ch.Key() == "n/b" && ch.New == nil
			}
		}
		if !gone || watches < 2 {
			t.Errorf("b is gone: %v; %d watches", gone, watches)
		}
	})
}
