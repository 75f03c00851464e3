package review

import (
	"context"
	"crypto/sha256"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/weirproject/weir/internal/core/request"
)

// TestDigest checks that different reviews have different digests, even if the concatenation of
// their texts is the same.
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

// TestFreshPermission checks that the Authorizer does not ask again about a recent answer.
func TestFreshPermission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, answer := 0, authorizer.DecisionAllow
		a := &Authorizer{breaker: &Breaker{}, timeout: time.Second, allowTTL: time.Second, denyTTL: time.Second / 4, allowed: newAnswerCache(maxCachedPermissions, time.Hour), denied: newAnswerCache(maxCachedDenials, time.Hour), seats: newReviewSeats(time.Second)}
		a.reviews = authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
			asked++
			return answer, "", nil
		})
		for i, step := range []struct {
			after    time.Duration
			Decision authorizer.Decision
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
			answer = step.Decision
			d := a.Allows(t.Context(), &user.DefaultInfo{Name: "jane"}, question("list", "pods", ""), Options{Grace: time.Hour})
			if d != map[bool]Decision{true: Allow, false: Deny}[step.ok] || asked != step.asked {
				t.Errorf("step %d: %d, asked %d times", i, d, asked)
			}
		}
	})
}

// TestFreshToken checks that the Authenticator does not ask again about a recent answer.
func TestFreshToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, valid := 0, true
		a := &Authenticator{breaker: &Breaker{}, localTTL: time.Second, tokenAnswers: newAnswerCache(MaxCachedTokens, time.Hour), seats: newReviewSeats(time.Second)}
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
			who, d := a.Authenticate(r, Options{Grace: time.Hour})
			if (who != nil) != step.ok || d != map[bool]Decision{true: Allow, false: Deny}[step.ok] || asked != step.asked {
				t.Errorf("step %d: %v, %d, asked %d times", i, who, d, asked)
			}
		}
	})
}
