package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/weirproject/weir/apiserver"
)

// ends waits until a watch has ended.
func (tp *testProxy) ends(what string, lines <-chan string) {
	tp.t.Helper()
	for {
		select {
		case _, ok := <-lines:
			if !ok {
				return
			}
		case <-tp.ctx.Done():
			tp.t.Fatal(what + ": the watch goes on")
		}
	}
}

// TestRefusedReview checks an upstream that answers reviews with an error. It can be reached, so
// earlier review answers are not used: all reads get 503, and watches end.
func TestRefusedReview(t *testing.T) {
	const list = "/api/v1/pods?resourceVersion=0"
	for _, code := range []int{http.StatusForbidden, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, Recheck: 20 * time.Millisecond})
			tp.want(http.StatusOK, "jane", list)
			certified := tp.clientWith(tp.authCA.Issue(t, "carol"))
			tp.opens(http.StatusOK, certified, http.MethodGet, list)
			lines := tp.watch("jane", "/api/v1/pods?watch=true&resourceVersion=0")
			tp.next(lines, "ADDED")
			u.forwarded("")
			u.refuseReviews(code)
			for _, path := range []string{list, "/api/v1/pods?watch=true&resourceVersion=0", "/api/v1/namespaces/default/pods/p?resourceVersion=0"} {
				resp := tp.open(tp.client, http.MethodGet, path, "Authorization", "Bearer token-jane")
				if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
					t.Errorf("%s: %s, Retry-After %q", path, resp.Status, resp.Header.Get("Retry-After"))
				}
				resp = tp.open(certified, http.MethodGet, path)
				if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
					t.Errorf("%s by certificate: %s, Retry-After %q", path, resp.Status, resp.Header.Get("Retry-After"))
				}
			}
			u.wantForwarded(0, "/api/v1/pods")
			tp.ends("refused", lines)
			u.setFault(nil)
			tp.want(http.StatusOK, "jane", list)
		})
	}
}

// TestNoGraceForMore checks that an impersonation and a GET of /metrics are refused while the
// upstream does not answer reviews. For them, the proxy does not use earlier review answers. The
// test makes the upstream fail to answer reviews in several ways.
func TestNoGraceForMore(t *testing.T) {
	u, tp := start(t, apiserver.Options{}, Options{})
	certified := tp.clientWith(tp.authCA.Issue(t, "carol"))
	const path = "/api/v1/namespaces/default/pods"
	ask := func(want int, what string) {
		t.Helper()
		resp := tp.open(certified, http.MethodPost, path, "Impersonate-User", "root")
		raw, _ := io.ReadAll(resp.Body)
		passed := u.forwarded(path)
		switch {
		case want == http.StatusOK && len(passed) != 1:
			t.Errorf("%s: %s, %d upstream: %s", what, resp.Status, len(passed), raw)
		case want != http.StatusOK && (resp.StatusCode != want || len(passed) != 0 || resp.Header.Get("Retry-After") == ""):
			t.Errorf("%s: %s, %d upstream: %s", what, resp.Status, len(passed), raw)
		}
		for name, client := range map[string]*http.Client{"certificate": certified, "token": tp.client} {
			resp := tp.open(client, http.MethodGet, "/metrics", "Authorization", "Bearer token-jane")
			if resp.StatusCode != want {
				t.Errorf("%s: /metrics by %s: %s", what, name, resp.Status)
			}
		}
	}
	ask(http.StatusOK, "answered")
	for _, code := range []int{http.StatusForbidden, http.StatusTooManyRequests, http.StatusInternalServerError} {
		u.refuseReviews(code)
		ask(http.StatusServiceUnavailable, fmt.Sprint(code))
	}
	u.setFault(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	ask(http.StatusServiceUnavailable, "no answer")
	u.setFault(nil)
	ask(http.StatusOK, "answered again")
}

// TestReviewsAloneFail checks an upstream that answers no reviews, but all other requests. There is
// no grace period: a read gets 503.
func TestReviewsAloneFail(t *testing.T) {
	const list = "/api/v1/pods?resourceVersion=0"
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}})
	tp.want(http.StatusOK, "jane", list)
	u.setFault(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	tp.want(http.StatusServiceUnavailable, "jane", list)
}

// TestGraceEnds checks that a watch ends when the upstream cannot be reached for longer than the
// grace period.
func TestGraceEnds(t *testing.T) {
	t.Parallel()
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, Recheck: 20 * time.Millisecond, OutageGrace: 200 * time.Millisecond})
	lines := tp.watch("jane", "/api/v1/pods?watch=true&resourceVersion=0")
	tp.next(lines, "ADDED")
	u.setDown(true)
	tp.ends("no grace is left", lines)
}

// TestReviewLimit checks that unknown tokens use no more than their share of the reviews, and that
// the proxy still reviews known callers.
func TestReviewLimit(t *testing.T) {
	const list = "/api/v1/pods?resourceVersion=0"
	// Requests with new tokens from one source get at most ten seats.
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, MaxRequests: 40, timeouts: patient()})
	tp.want(http.StatusOK, "jane", list)
	lines := tp.watch("jane", "/api/v1/pods?watch=true&resourceVersion=0")
	tp.next(lines, "ADDED")
	release := make(chan struct{})
	u.setFault(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if strings.Contains(string(raw), "junk") {
			<-release
		}
		// This simulates the answer to a review.
		review := map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
			"status": authorizationv1.SubjectAccessReviewStatus{Allowed: true}}
		if strings.HasSuffix(r.URL.Path, "/tokenreviews") {
			review = map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
				"status": authenticationv1.TokenReviewStatus{
					Authenticated: strings.Contains(string(raw), "token-jane"), User: authenticationv1.UserInfo{Username: "jane", UID: "uid-jane"},
				}}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(review)
	})
	const many = 10 + 20 + 50
	codes := make(chan int, many)
	for i := range many {
		go tp.sendCode(codes, fmt.Sprintf("junk-%d", i), list)
	}
	counts := map[int]int{}
	for range 50 { // at least 50 of the requests get no seat
		counts[<-codes]++
	}
	if counts[http.StatusTooManyRequests] != 50 {
		t.Errorf("without a place: %v", counts)
	}
	tp.want(http.StatusOK, "jane", list)
	close(release)
	for range many - 50 {
		counts[<-codes]++
	}
	u.setFault(nil)
	tp.want(http.StatusOK, "joan", list)
}
