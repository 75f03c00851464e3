package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

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

// TestRefusedReview: an upstream that answers a review with an error can be reached, so no earlier
// answer counts: all reads get 503, and watches end.
func TestRefusedReview(t *testing.T) {
	const list = "/api/v1/pods?resourceVersion=0"
	for _, code := range []int{http.StatusForbidden, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			u := startUpstream(t, apiserver.Options{Pods: 3})
			tp := startProxy(t, u, Options{Resources: []string{"pods"}, Recheck: 20 * time.Millisecond})
			tp.ready()
			if code, _ := tp.get("jane", list); code != http.StatusOK {
				t.Fatal(code)
			}
			certified := tp.clientWith(tp.authCA.Issue(t, "carol"))
			if resp := tp.open(certified, http.MethodGet, list); resp.StatusCode != http.StatusOK {
				t.Fatal(resp.Status)
			}
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
			if passed := u.forwarded("/api/v1/pods"); len(passed) != 0 {
				t.Errorf("%d reads went upstream", len(passed))
			}
			tp.ends("refused", lines)
			u.setFault(nil)
			if code, _ := tp.get("jane", list); code != http.StatusOK {
				t.Errorf("afterwards: %d", code)
			}
		})
	}
}

// TestNoGraceForMore: the last answer counts for reads only. Who was allowed to impersonate, or to
// read /metrics, is asked about each time, whatever keeps the review from being answered.
func TestNoGraceForMore(t *testing.T) {
	u := startUpstream(t, apiserver.Options{})
	tp := startProxy(t, u, Options{})
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

// TestReviewsAloneFail: while the upstream answers anything, a review that it does not answer opens
// no grace.
func TestReviewsAloneFail(t *testing.T) {
	const list = "/api/v1/pods?resourceVersion=0"
	u := startUpstream(t, apiserver.Options{Pods: 3})
	tp := startProxy(t, u, Options{Resources: []string{"pods"}})
	tp.ready()
	if code, _ := tp.get("jane", list); code != http.StatusOK {
		t.Fatal(code)
	}
	u.setFault(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if code, body := tp.get("jane", list); code != http.StatusServiceUnavailable {
		t.Errorf("%d %.200s", code, body)
	}
}

// TestGraceEnds: while the upstream cannot be reached, a watch ends when the grace has passed.
func TestGraceEnds(t *testing.T) {
	t.Parallel()
	u := startUpstream(t, apiserver.Options{Pods: 3})
	tp := startProxy(t, u, Options{Resources: []string{"pods"}, Recheck: 20 * time.Millisecond, OutageGrace: 200 * time.Millisecond})
	tp.ready()
	lines := tp.watch("jane", "/api/v1/pods?watch=true&resourceVersion=0")
	tp.next(lines, "ADDED")
	u.setDown(true)
	tp.ends("no grace is left", lines)
}

// TestReviewLimit: unknown tokens use no more than their share of the reviews. The proxy still
// reviews known callers.
func TestReviewLimit(t *testing.T) {
	const list = "/api/v1/pods?resourceVersion=0"
	u := startUpstream(t, apiserver.Options{Pods: 3})
	// Of all new tokens of one source ten have seats, and ten wait.
	tp := startProxy(t, u, Options{Resources: []string{"pods"}, MaxRequests: 40, timeouts: patient()})
	tp.ready()
	if code, _ := tp.get("jane", list); code != http.StatusOK {
		t.Fatal(code)
	}
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
		// As the one who answers does.
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
	for range 50 { // that find no place even to wait
		counts[<-codes]++
	}
	if counts[http.StatusTooManyRequests] != 50 {
		t.Errorf("without a place: %v", counts)
	}
	if code, body := tp.get("jane", list); code != http.StatusOK {
		t.Errorf("a known caller: %d %.200s", code, body)
	}
	close(release)
	for range many - 50 {
		counts[<-codes]++
	}
	u.setFault(nil)
	if code, _ := tp.get("joan", list); code != http.StatusOK {
		t.Errorf("afterwards: %d", code)
	}
}

// TestDecisions: what a failed review decides for the reads of a caller who was allowed before, and
// for other requests.
func TestDecisions(t *testing.T) {
	network := &url.Error{Op: "Post", URL: "https://upstream", Err: syscall.ECONNREFUSED}
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "subjectaccessreviews"}, "", nil)
	for name, tt := range map[string]struct {
		err     error
		late    bool // the caller has gone before the review ended
		reached bool // the upstream answers something else
		read    decision
		more    decision
		isNo    bool // of a token, though not of a permission
	}{
		"no network":                 {err: network, read: decisionGrace, more: decisionUnreachable},
		"no answer in time":          {err: context.DeadlineExceeded, read: decisionGrace, more: decisionUnreachable},
		"several, no network":        {err: utilerrors.NewAggregate([]error{network, network}), read: decisionGrace, more: decisionUnreachable},
		"no network, but others":     {err: network, reached: true, read: decisionUnanswered, more: decisionUnanswered},
		"refused":                    {err: refusal, read: decisionUnanswered, more: decisionUnanswered},
		"several, one refused":       {err: utilerrors.NewAggregate([]error{network, refusal}), read: decisionUnanswered, more: decisionUnanswered},
		"too many requests":          {err: apierrors.NewTooManyRequests("", 1), read: decisionUnanswered, more: decisionUnanswered},
		"a timeout as a Status":      {err: apierrors.NewTimeoutError("", 1), read: decisionUnanswered, more: decisionUnanswered},
		"the caller has gone":        {err: &url.Error{Op: "Post", Err: context.Canceled}, late: true, read: decisionUnanswered, more: decisionUnanswered},
		"what a webhook says":        {err: errors.New("invalid bearer token"), read: decisionUnanswered, more: decisionUnanswered, isNo: true},
		"cut off":                    {err: fmt.Errorf("reading: %w", io.ErrUnexpectedEOF), read: decisionUnanswered, more: decisionUnanswered},
		"a stream cut off":           {err: utilerrors.NewAggregate([]error{http2.StreamError{StreamID: 1, Code: http2.ErrCodeInternal}}), read: decisionUnanswered, more: decisionUnanswered},
		"a connection cut off":       {err: http2.GoAwayError{LastStreamID: 1}, read: decisionUnanswered, more: decisionUnanswered},
		"the caller, and no network": {err: network, late: true, read: decisionUnanswered, more: decisionUnanswered},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				br := &breaker{probe: func(context.Context, time.Time) bool { return tt.reached }}
				var failure error
				fail := func() error {
					if failure != nil && tt.late {
						cancel()
					}
					return failure
				}
				authz := &authorization{breaker: br, timeout: time.Minute, allowTTL: time.Second, allowed: newAnswerCache(maxCachedPermissions, time.Hour), denied: newAnswerCache(maxCachedDenials, time.Hour), seats: newReviewSeats(time.Minute)}
				authz.reviews = authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
					if err := fail(); err != nil {
						return authorizer.DecisionNoOpinion, "", err
					}
					return authorizer.DecisionAllow, "", nil
				})
				authn := &authentication{breaker: br, localTTL: time.Second, tokenAnswers: newAnswerCache(maxCachedTokens, time.Hour), seats: newReviewSeats(time.Minute)}
				authn.tokens = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
					if err := fail(); err != nil {
						return nil, false, err
					}
					return &authenticator.Response{User: &user.DefaultInfo{Name: "jane"}}, true, nil
				})
				r := (&http.Request{Header: http.Header{"Authorization": {"Bearer one"}}}).WithContext(ctx)
				jane, q := &user.DefaultInfo{Name: "jane"}, question("list", "pods", "")
				ask := func(want decision, t0 reviewOptions) {
					t.Helper()
					ofToken := want
					if tt.isNo && failure != nil {
						ofToken = decisionDeny
					}
					if _, d := authn.authenticate(r, t0); d != ofToken {
						t.Errorf("the caller, %+v: %d, want %d", t0, d, ofToken)
					}
					if d := authz.allows(ctx, jane, q, t0); d != want {
						t.Errorf("the permission, %+v: %d, want %d", t0, d, want)
					}
				}
				ask(decisionAllow, reviewOptions{})
				time.Sleep(time.Minute)
				failure = tt.err
				ask(tt.more, reviewOptions{})
				ask(tt.read, reviewOptions{grace: time.Hour})
				time.Sleep(time.Hour)
				ask(tt.more, reviewOptions{grace: time.Hour})
			})
		})
	}
}

// TestStillAllowed: how long a watch goes on by what its rechecks say.
func TestStillAllowed(t *testing.T) {
	type step struct {
		v     decision
		after time.Duration
		keeps bool
	}
	for name, steps := range map[string][]step{
		"no twice":                      {{decisionDeny, 0, true}, {decisionDeny, 0, false}},
		"no, yes, no":                   {{decisionDeny, 0, true}, {decisionAllow, 0, true}, {decisionDeny, 0, true}},
		"no, and another later":         {{decisionDeny, 0, true}, {decisionUnanswered, 0, true}, {decisionUnreachable, 0, true}, {decisionGrace, 0, true}, {decisionDeny, 0, false}},
		"refused":                       {{decisionUnanswered, 0, true}, {decisionUnanswered, 0, true}, {decisionUnanswered, 0, false}},
		"refused now and then":          {{decisionUnanswered, 0, true}, {decisionUnanswered, 0, true}, {decisionAllow, 0, true}, {decisionUnanswered, 0, true}, {decisionUnanswered, 0, true}},
		"refused between outages":       {{decisionUnanswered, 0, true}, {decisionUnreachable, 0, true}, {decisionUnanswered, 0, true}, {decisionGrace, 0, true}, {decisionUnanswered, 0, false}},
		"unreachable within grace":      {{decisionUnreachable, 59 * time.Minute, true}, {decisionUnreachable, time.Minute, false}},
		"unreachable, yes, unreachable": {{decisionUnreachable, 59 * time.Minute, true}, {decisionAllow, 0, true}, {decisionUnreachable, 59 * time.Minute, true}},
		"refused for too long":          {{decisionUnanswered, 0, true}, {decisionUnanswered, 30 * time.Minute, false}},
		"refused, then no answer":       {{decisionUnanswered, 59 * time.Minute, true}, {decisionUnreachable, time.Minute, false}},
	} {
		c := &answerHistory{confirmed: time.Unix(1000, 0)}
		now := c.confirmed
		for i, s := range steps {
			now = now.Add(s.after)
			if keeps := c.stillAllowed(s.v, now, time.Hour, 30*time.Minute); keeps != s.keeps {
				t.Errorf("%s: step %d: %t", name, i, keeps)
			}
		}
	}
	begun := &answerHistory{} // by an earlier answer
	if begun.stillAllowed(decisionUnreachable, time.Now(), time.Hour, time.Hour) {
		t.Error("a watch that was begun by an earlier answer outlives that")
	}
}
