package proxy

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/request"
)

// TestDigest: questions that read alike when their texts are strung together are different ones.
func TestDigest(t *testing.T) {
	seen := map[[sha256.Size]byte]int{}
	for i, q := range []struct {
		who user.DefaultInfo
		to  request.Request
	}{
		{}, {who: user.DefaultInfo{Name: "ab"}}, {who: user.DefaultInfo{Name: "a", UID: "b"}}, {who: user.DefaultInfo{UID: "ab"}},
		{who: user.DefaultInfo{Groups: []string{"a", "b"}}}, {who: user.DefaultInfo{Groups: []string{"ab"}}},
		{who: user.DefaultInfo{Groups: []string{"a"}, Extra: map[string][]string{"b": nil}}},
		{who: user.DefaultInfo{Extra: map[string][]string{"a": {"b"}}}}, {who: user.DefaultInfo{Extra: map[string][]string{"a": nil, "b": nil}}},
		{to: request.Request{Info: request.Info{Path: request.Path{Namespace: "a", Name: "b"}}}}, {to: request.Request{Info: request.Info{Path: request.Path{Name: "ab"}}}},
		{to: request.Request{Info: request.Info{Verb: "list"}}},
		{to: request.Request{Options: request.Options{LabelText: "a"}}}, {to: request.Request{Options: request.Options{FieldText: "a"}}},
	} {
		id := digestOf(&q.to, &q.who)
		if again := digestOf(&q.to, &q.who); again != id {
			t.Errorf("question %d has two digests", i)
		}
		if j, ok := seen[id]; ok {
			t.Errorf("questions %d and %d look alike", j, i)
		}
		seen[id] = i
	}
}

// TestFreshPermission: what was allowed or denied a moment ago is not asked again.
func TestFreshPermission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, answer := 0, authorizer.DecisionAllow
		a := &authorization{breaker: &breaker{}, timeout: time.Second, allowTTL: time.Second, denyTTL: time.Second / 4, allowed: newAnswerCache(maxCachedPermissions, time.Hour), denied: newAnswerCache(maxCachedDenials, time.Hour), seats: newReviewSeats(time.Second)}
		a.reviews = authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
			asked++
			return answer, "", nil
		})
		for i, step := range []struct {
			after    time.Duration
			decision authorizer.Decision
			ok       bool
			asked    int
		}{
			{0, authorizer.DecisionAllow, true, 1},
			{time.Second / 2, authorizer.DecisionDeny, true, 1},
			{time.Second / 2, authorizer.DecisionDeny, false, 2},
			{time.Second / 8, authorizer.DecisionAllow, false, 2},
			{time.Second / 8, authorizer.DecisionDeny, false, 3},
			{time.Second / 4, authorizer.DecisionAllow, true, 4},
			{time.Second / 2, authorizer.DecisionAllow, true, 4},
		} {
			time.Sleep(step.after)
			answer = step.decision
			d := a.allows(t.Context(), &user.DefaultInfo{Name: "jane"}, question("list", "pods", ""), reviewOptions{grace: time.Hour})
			if d != map[bool]decision{true: decisionAllow, false: decisionDeny}[step.ok] || asked != step.asked {
				t.Errorf("step %d: %d, asked %d times", i, d, asked)
			}
		}
	})
}

// TestReviewsKeepNothing: what a caller puts into a review is not kept, however many it has made.
func TestReviewsKeepNothing(t *testing.T) {
	u := startUpstream(t, apiserver.Options{})
	tp := startProxy(t, u, Options{Authentication: Authentication{AllowTTL: time.Hour, DenyTTL: time.Hour}})
	u.deny(func(authorizationv1.SubjectAccessReviewSpec) bool { return true })
	const reviews, size = 200, 8 << 10
	used := func() int64 {
		u.mu.Lock()
		u.reviews, u.requests = nil, nil
		u.mu.Unlock()
		for range 3 {
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	ask := func(n int) {
		for i := range n {
			text := fmt.Sprintf("metadata.name!=%s%d", strings.Repeat("<", size), i)
			q := question("list", "pods", "")
			q.Fields, q.FieldText = fields.ParseSelectorOrDie(text), text
			if d := tp.server.authz.allowsExactly(t.Context(), &user.DefaultInfo{Name: "joe"}, q, reviewOptions{}); d != decisionDeny {
				t.Fatal(d)
			}
		}
	}
	ask(10)
	before := used()
	ask(reviews)
	if grown := used() - before; grown > reviews*size {
		t.Errorf("%d reviews of %d bytes have left %d", reviews, size, grown)
	}
}

// TestFreshToken is TestFreshPermission for tokens.
func TestFreshToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, valid := 0, true
		a := &authentication{breaker: &breaker{}, localTTL: time.Second, tokenAnswers: newAnswerCache(maxCachedTokens, time.Hour), seats: newReviewSeats(time.Second)}
		a.tokens = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
			asked++
			return &authenticator.Response{User: &user.DefaultInfo{Name: "jane"}}, valid, nil
		})
		for i, step := range []struct {
			after time.Duration
			token string
			valid bool
			ok    bool
			asked int
		}{
			{0, "one", true, true, 1},
			{time.Second / 2, "one", false, true, 1},
			{0, "two", true, true, 2},
			{time.Second / 2, "one", false, false, 3},
			{0, "one", false, false, 4},
		} {
			time.Sleep(step.after)
			valid = step.valid
			r := &http.Request{Header: http.Header{"Authorization": {"Bearer " + step.token}}}
			who, d := a.authenticate(r, reviewOptions{grace: time.Hour})
			if (who != nil) != step.ok || d != map[bool]decision{true: decisionAllow, false: decisionDeny}[step.ok] || asked != step.asked {
				t.Errorf("step %d: %v, %d, asked %d times", i, who, d, asked)
			}
		}
	})
}
