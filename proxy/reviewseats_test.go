package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/proxy/internal/seats"
)

// TestReviewsOfOneCaller checks a known caller who starts many watches at the same time. Each watch
// needs its own review. Other callers still get reviews, and the proxy finally answers all watches.
func TestReviewsOfOneCaller(t *testing.T) {
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, timeouts: patient()})
	tp.get("jane", "/api/v1/pods?resourceVersion=0") // jane is known then
	var (
		mu          sync.Mutex
		asked, most int
	)
	unblock := make(chan struct{})
	u.setFault(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if strings.HasSuffix(r.URL.Path, "/tokenreviews") {
			u.review(w, r, u.token)
			return
		}
		if bytes.Contains(body, []byte("jane")) {
			mu.Lock()
			asked++
			most = max(most, asked)
			mu.Unlock()
			<-unblock
			mu.Lock()
			asked--
			mu.Unlock()
		}
		u.review(w, r, u.access)
	})
	const watches = 300
	client := tp.http1(nil)
	codes := make(chan int, watches)
	for i := range watches {
		go func() {
			code := 0
			defer func() { codes <- code }()
			code = tp.open(client, http.MethodGet, fmt.Sprintf("/api/v1/namespaces/n%d/pods?watch=true&resourceVersion=0", i), "Authorization", "Bearer token-jane").StatusCode
		}()
	}
	tp.until("all of them have come", func() bool { return tp.server.seats.Watches.Count() == watches })
	tp.want(http.StatusOK, "john", "/api/v1/namespaces/default/pods?resourceVersion=0")
	close(unblock)
	for range watches {
		check.Equal(t, <-codes, http.StatusOK, "a watch")
	}
	if most > seats.MaxReviews/2 {
		t.Errorf("%d reviews of one caller at once", most)
	}
}
