package review

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// TestDecisions checks which decision a failed review causes, for reads of a caller that was
// allowed before and for other requests.
func TestDecisions(t *testing.T) {
	network := &url.Error{Op: "Post", URL: "https://upstream", Err: syscall.ECONNREFUSED}
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "subjectaccessreviews"}, "", nil)
	for name, tt := range map[string]struct {
		err     error
		late    bool // the caller left before the review ended
		reached bool // the upstream answers other requests
		read    Decision
		more    Decision
		// in a token review, this error means that the token is rejected; other reviews are then
		// unanswered
		isNo bool
	}{
		"no network":                 {err: network, read: Grace, more: Unreachable},
		"no answer in time":          {err: context.DeadlineExceeded, read: Grace, more: Unreachable},
		"several, no network":        {err: utilerrors.NewAggregate([]error{network, network}), read: Grace, more: Unreachable},
		"no network, but others":     {err: network, reached: true, read: Unanswered, more: Unanswered},
		"refused":                    {err: refusal, read: Unanswered, more: Unanswered},
		"several, one refused":       {err: utilerrors.NewAggregate([]error{network, refusal}), read: Unanswered, more: Unanswered},
		"too many requests":          {err: apierrors.NewTooManyRequests("", 1), read: Unanswered, more: Unanswered},
		"a timeout as a Status":      {err: apierrors.NewTimeoutError("", 1), read: Unanswered, more: Unanswered},
		"the caller has gone":        {err: &url.Error{Op: "Post", Err: context.Canceled}, late: true, read: Unanswered, more: Unanswered},
		"what a webhook says":        {err: errors.New("invalid bearer token"), read: Unanswered, more: Unanswered, isNo: true},
		"cut off":                    {err: fmt.Errorf("reading: %w", io.ErrUnexpectedEOF), read: Unanswered, more: Unanswered},
		"a stream cut off":           {err: utilerrors.NewAggregate([]error{http2.StreamError{StreamID: 1, Code: http2.ErrCodeInternal}}), read: Unanswered, more: Unanswered},
		"a connection cut off":       {err: http2.GoAwayError{LastStreamID: 1}, read: Unanswered, more: Unanswered},
		"the caller, and no network": {err: network, late: true, read: Unanswered, more: Unanswered},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				br := &Breaker{Probe: func(context.Context, time.Time) bool { return tt.reached }}
				var failure error
				fail := func() error {
					if failure != nil && tt.late {
						cancel()
					}
					return failure
				}
				authz := &Authorizer{breaker: br, timeout: time.Minute, allowTTL: time.Second, allowed: newAnswerCache(maxCachedPermissions, time.Hour), denied: newAnswerCache(maxCachedDenials, time.Hour), seats: newReviewSeats(time.Minute)}
				authz.reviews = authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
					if err := fail(); err != nil {
						return authorizer.DecisionNoOpinion, "", err
					}
					return authorizer.DecisionAllow, "", nil
				})
				authn := &Authenticator{breaker: br, localTTL: time.Second, tokenAnswers: newAnswerCache(MaxCachedTokens, time.Hour), seats: newReviewSeats(time.Minute)}
				authn.tokens = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
					if err := fail(); err != nil {
						return nil, false, err
					}
					return &authenticator.Response{User: &user.DefaultInfo{Name: "jane"}}, true, nil
				})
				r := (&http.Request{Header: http.Header{"Authorization": {"Bearer one"}}}).WithContext(ctx)
				jane, q := &user.DefaultInfo{Name: "jane"}, question("list", "pods", "")
				ask := func(want Decision, t0 Options) {
					t.Helper()
					ofToken := want
					if tt.isNo && failure != nil {
						ofToken = Deny
					}
					if _, d := authn.Authenticate(r, t0); d != ofToken {
						t.Errorf("the caller, %+v: %d, want %d", t0, d, ofToken)
					}
					if d := authz.Allows(ctx, jane, q, t0); d != want {
						t.Errorf("the permission, %+v: %d, want %d", t0, d, want)
					}
				}
				ask(Allow, Options{})
				time.Sleep(time.Minute)
				failure = tt.err
				ask(tt.more, Options{})
				ask(tt.read, Options{Grace: time.Hour})
				time.Sleep(time.Hour)
				ask(tt.more, Options{Grace: time.Hour})
			})
		})
	}
}

// TestStillAllowed checks for how long a watch continues after the given answers to its rechecks.
func TestStillAllowed(t *testing.T) {
	type step struct {
		v     Decision
		after time.Duration
		keeps bool
	}
	for name, steps := range map[string][]step{
		"no twice":                      {{Deny, 0, true}, {Deny, 0, false}},
		"no, yes, no":                   {{Deny, 0, true}, {Allow, 0, true}, {Deny, 0, true}},
		"no, and another later":         {{Deny, 0, true}, {Unanswered, 0, true}, {Unreachable, 0, true}, {Grace, 0, true}, {Deny, 0, false}},
		"refused":                       {{Unanswered, 0, true}, {Unanswered, 0, true}, {Unanswered, 0, false}},
		"refused now and then":          {{Unanswered, 0, true}, {Unanswered, 0, true}, {Allow, 0, true}, {Unanswered, 0, true}, {Unanswered, 0, true}},
		"refused between outages":       {{Unanswered, 0, true}, {Unreachable, 0, true}, {Unanswered, 0, true}, {Grace, 0, true}, {Unanswered, 0, false}},
		"unreachable within grace":      {{Unreachable, 59 * time.Minute, true}, {Unreachable, time.Minute, false}},
		"unreachable, yes, unreachable": {{Unreachable, 59 * time.Minute, true}, {Allow, 0, true}, {Unreachable, 59 * time.Minute, true}},
		"refused for too long":          {{Unanswered, 0, true}, {Unanswered, 30 * time.Minute, false}},
		"refused, then no answer":       {{Unanswered, 59 * time.Minute, true}, {Unreachable, time.Minute, false}},
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
	begun := &answerHistory{} // the watch was started because of a cached answer
	if begun.stillAllowed(Unreachable, time.Now(), time.Hour, time.Hour) {
		t.Error("a watch that was begun by an earlier answer outlives that")
	}
}
