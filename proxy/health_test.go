package proxy

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// upstreamState selects how the upstream of TestSlowUpstream answers.
type upstreamState int

const (
	answering upstreamState = iota
	slow                    // it answers after more than probeTimeout
	broken
)

func (u *upstreamState) RoundTrip(r *http.Request) (*http.Response, error) {
	status := http.StatusOK
	switch *u {
	case slow:
		<-r.Context().Done()
		return nil, context.Cause(r.Context())
	case broken:
		status = http.StatusInternalServerError
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(`{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1"}`)),
	}, nil
}

// TestSlowUpstream checks that the proxy stays ready if the upstream is slow for less than
// slowTime. It is not ready if the upstream is slow for longer, was never reached, or answers with
// an error.
func TestSlowUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream := slow
		client := kubernetes.NewForConfigOrDie(&rest.Config{Host: "https://upstream", Transport: &upstream, QPS: -1})
		p := &health{client: client.Discovery().RESTClient(), reviews: client.AuthorizationV1().SubjectAccessReviews()}
		expect := func(when string, state upstreamState, ready bool) {
			t.Helper()
			upstream = state
			time.Sleep(probeEvery)
			if reached, identity := p.check(t.Context()); (reached == nil && identity == nil) != ready {
				t.Errorf("%s: %v, %v; want ready: %t", when, reached, identity, ready)
			}
		}
		expect("never reached", slow, false)
		expect("well", answering, true)
		expect("slow for a moment", slow, true)
		time.Sleep(slowTime)
		expect("slow for longer", slow, false)
		expect("well again", answering, true)
		expect("failing", broken, false)
	})
}
