package proxy

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/proxy/internal/review"
	"github.com/weirproject/weir/proxy/internal/seats"
)

// TestLargeHead checks that the head of a request may contain a long query, a long token and also a
// header of 160 KiB. The proxy refuses a larger head before it sends any review of the caller.
func TestLargeHead(t *testing.T) {
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}})
	const path = "/api/v1/pods?resourceVersion=0&labelSelector="
	head := func(n int) []string {
		return []string{"Authorization", "Bearer token-jane~" + strings.Repeat("x", 16<<10), "X-Padding", strings.Repeat("x", n)}
	}
	for protocol, client := range map[string]*http.Client{"HTTP/1": tp.http1(nil), "HTTP/2": tp.client} {
		if resp := tp.open(client, http.MethodGet, path+strings.Repeat("a", maxQuery-100), head(160<<10)...); resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: a large head: %s", protocol, resp.Status)
		}
	}
	u.forwarded("")
	resp := tp.open(tp.http1(nil), http.MethodGet, path, head(300<<10)...)
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge || len(u.forwarded("")) > 0 {
		t.Errorf("a larger one: %s", resp.Status)
	}
}

// TestLongQuery checks that the proxy does not parse a query that is too long. For any path, it
// refuses the request and answers with a Status.
func TestLongQuery(t *testing.T) {
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}})
	query := func(n int) string {
		const head = "?resourceVersion=0&labelSelector="
		return head + strings.Repeat("a", n-len(head)+1)
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		for _, path := range []string{"/api/v1/pods", "/api/v1/namespaces/default/pods/x", "/anything"} {
			u.forwarded("")
			resp := tp.open(tp.client, method, path+query(maxQuery+1), "Authorization", "Bearer token-jane")
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != http.StatusRequestURITooLong || !strings.Contains(string(body), `"code":414`) || !strings.Contains(string(body), `"kind":"Status"`) {
				t.Errorf("%s %s: %s %.300s", method, path, resp.Status, body)
			}
			u.wantForwarded(0, "")
		}
	}
	if code, _ := tp.get("jane", "/api/v1/pods"+query(maxQuery)); code == http.StatusRequestURITooLong {
		t.Error("one that is as long as may be is refused")
	}
	if _, complete := request.CachedStrict(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/api/v1/pods", RawQuery: query(maxQuery + 1)[1:]}}); complete {
		t.Error("it was read")
	}
}

// TestPriorityLevels checks the level (the priority in flow control) that each kind of request
// gets.
func TestPriorityLevels(t *testing.T) {
	_, tp := start(t, apiserver.Options{}, Options{})
	lease := &url.URL{Path: "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node"}
	pods := &url.URL{Path: "/api/v1/pods", RawQuery: "watch=true"}
	ask := func(method string, at *url.URL, token string) *http.Request {
		r := &http.Request{Method: method, URL: at, Header: http.Header{}}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		return r
	}
	of := func(r *http.Request) seats.Flow { return tp.server.flowOf(r, request.InfoOf(r.Method, r.URL)) }
	for name, tt := range map[string]struct {
		groups []string
		want   seats.Level
	}{
		"jane":  {nil, seats.Everyone},
		"admin": {[]string{user.SystemPrivilegedGroup}, seats.System},
		"system:serviceaccount:kube-system:generic-garbage-collector": {nil, seats.System},
		"system:serviceaccount:default:app":                           {nil, seats.Everyone},
		"system:node:n":                                               {[]string{user.NodesGroup}, seats.System},
		scheduler:                                                     {nil, seats.System}, controllerManager: {nil, seats.System},
	} {
		r := ask(http.MethodGet, pods, name)
		if got := of(r); got != (seats.Flow{Level: seats.NewTokens, Token: seats.TokenKey(review.TokenID(r))}) {
			t.Errorf("%s is known already: %+v", name, got)
		}
		account := &user.DefaultInfo{Name: name, Groups: tt.groups}
		tp.server.authn.Remember(account, review.TokenID(r))
		if got := of(r); got != (seats.Flow{Level: tt.want, Caller: "user " + name}) {
			t.Errorf("%s: %+v", name, got)
		}
		leases := seats.Leases
		if tt.want == seats.System {
			leases = seats.SystemLeases
		}
		if got := of(ask(http.MethodPut, lease, name)); got != (seats.Flow{Level: leases, Caller: "user " + name}) {
			t.Errorf("a lease of %s: %+v", name, got)
		}
	}
	// Requests with unknown tokens are in one flow for each client address, even requests for leases.
	// The same is true for requests without a token.
	for token, want := range map[string]seats.Level{"made-up": seats.NewTokens, "made-up-too": seats.NewTokens, "": seats.Anonymous} {
		r := ask(http.MethodPut, lease, token)
		r.RemoteAddr = "192.0.2.1:1234"
		if got := of(r); got.Level != want || got.Caller != "192.0.2.1" {
			t.Errorf("%q: %+v", token, got)
		}
	}
	r := ask(http.MethodPut, lease, "let-in")
	tp.server.upstream.acceptedTokens.Add(review.TokenID(r), nil)
	if got := of(r); got != (seats.Flow{Level: seats.Leases, Caller: seats.TokenKey(review.TokenID(r))}) {
		t.Errorf("a caller whom the upstream has accepted: %+v", got)
	}
}

// TestSystemSeats checks that the proxy still answers the control plane's requests, and requests
// for leases, when other callers have as many reads in progress as the limits allow.
func TestSystemSeats(t *testing.T) {
	_, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, MaxRequests: 21, timeouts: impatient()})
	const list = "/api/v1/pods?resourceVersion=0"
	know := func(who ...string) {
		for _, name := range who {
			tp.want(http.StatusOK, name, list)
		}
	}
	know("jane", "john", "jack", "mine", scheduler)
	in := tp.server.seats.Reads
	half := in.Room(seats.Everyone) / 2
	for i, name := range []string{"jane", "john", "jack"} {
		for range half {
			in.Acquire(tp.ctx, seats.Flow{Level: seats.Everyone, Caller: "user " + name})
		}
		tp.want(http.StatusTooManyRequests, name, list)
		if code, _ := tp.get("mine", list); (code == http.StatusOK) != (i < 2) {
			t.Errorf("another caller beside %d: %d", i+1, code)
		}
	}
	tp.want(http.StatusOK, scheduler, list)
	if code, body := tp.get("mine", "/apis/coordination.k8s.io/v1/namespaces/default/leases/mine"); code == http.StatusTooManyRequests {
		t.Errorf("a lease: %s", body)
	}
}

// TestFloodOfLeases lets other callers send bodies of leases slowly, until these requests occupy
// all seats that they may have. It checks that the control plane can still renew its leases.
func TestFloodOfLeases(t *testing.T) {
	_, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, MaxMutating: 20, timeouts: impatient()})
	callers := []string{"jane", "john", "jack", "mine", scheduler}
	for _, name := range callers {
		tp.want(http.StatusOK, name, "/api/v1/pods?resourceVersion=0")
	}
	const leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases/"
	in := tp.server.seats.Writes
	most := in.Room(seats.Leases)
	for _, name := range callers[:3] { // each caller may occupy at most half of the seats
		for range most / 2 {
			fmt.Fprintf(tp.dial("http/1.1"), "PUT %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer token-%s\r\nContent-Length: %d\r\n\r\n{", leases+"x", name, 4*maxBuffered)
		}
	}
	tp.until("all seats are taken", func() bool {
		taken, _ := in.Counts()
		return taken[seats.Leases] == most
	})
	put := func(name string) int {
		return tp.open(tp.client, http.MethodPut, leases+"own", "Authorization", "Bearer token-"+name).StatusCode
	}
	check.Equal(t, put("mine"), http.StatusTooManyRequests, "another caller's lease")
	if code := put(scheduler); code == http.StatusTooManyRequests {
		t.Error("the scheduler's lease finds no seat")
	}
}

// TestWatchesOfUser checks that the proxy bounds the watches of each user, without refusing other
// users. It also bounds the memory of all watches.
func TestWatchesOfUser(t *testing.T) {
	_, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, MaxWatchesPerUser: 2})
	const watch = "/api/v1/pods?watch=true&resourceVersion=0"
	refused := func(who, why string) {
		t.Helper()
		resp := tp.open(tp.client, http.MethodGet, watch, "Authorization", "Bearer token-"+who)
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "5" || !strings.Contains(string(body), why) || !strings.Contains(string(body), `"kind":"Status"`) {
			t.Errorf("%s: %s %v %s", who, resp.Status, resp.Header, body)
		}
	}
	open := func(who string) {
		t.Helper()
		tp.next(tp.watch(who, watch), "ADDED")
	}
	open("jane")
	open("jane")
	refused("jane", "of this user")
	open("john")
	l := tp.server.seats.Watches
	if jane, john := l.Number.ShareBytes(0, "user jane"), l.Number.ShareBytes(0, "user john"); l.Count() != 3 || jane != 2 || john != 1 {
		t.Errorf("%d watches, %d of jane's and %d of john's", l.Count(), jane, john)
	}
	rest := l.Memory.NewCharge(0, "")
	rest.Add(l.Memory.Limit() - l.Memory.Used() - seats.WatchBytes + 1)
	tp.get("joan", "/api/v1/pods?resourceVersion=0")
	refused("joan", "memory")
	rest.Release()
	open("joan")
	if _, body := tp.get("jane", "/metrics"); !strings.Contains(body, `weir_proxy_watches_refused_total{for="memory"} 1`) ||
		!strings.Contains(body, `weir_proxy_watches_refused_total{for="user"} 1`) || strings.Contains(body, "weir_proxy_watch_memory_used_bytes 0") {
		t.Error("metrics do not tell of it")
	}
}

// TestForwardedWatchesOfUser checks that the proxy also bounds the forwarded watches of each user,
// over all of the user's tokens. If the review of a token fails, the watch is forwarded.
func TestForwardedWatchesOfUser(t *testing.T) {
	u, tp := start(t, apiserver.Options{Pods: 3}, Options{MaxWatchesPerUser: 2})
	open := func(token string, want int) {
		t.Helper()
		tp.opens(want, tp.client, http.MethodGet, "/api/v1/pods?watch=true&resourceVersion=0", "Authorization", "Bearer token-"+token)
	}
	open("jane", http.StatusOK)
	open("jane~1", http.StatusOK)
	open("jane~2", http.StatusTooManyRequests)
	open("john", http.StatusOK)
	u.refuseReviews(http.StatusInternalServerError)
	open("jane~3", http.StatusOK)
	l := tp.server.seats.Watches
	jane, john, shares := l.Number.ShareBytes(0, "user jane"), l.Number.ShareBytes(0, "user john"), l.Number.Usage()[0].Shares
	if l.Count() != 4 || jane != 2 || john != 1 || shares != 3 {
		t.Errorf("%d watches, %d of jane's and %d of john's, of %d users and tokens", l.Count(), jane, john, shares)
	}
}

// TestMadeUpTokens checks which answers make a token known. kube-apiserver refuses some requests
// before it authenticates them, so such a refusal does not make the token known. A token that
// kube-apiserver rejects is no longer known.
func TestMadeUpTokens(t *testing.T) {
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}})
	const lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/mine"
	of := func(who string) seats.Flow { return tp.flowOf(lease, who) }
	answer := func(who string, code int) {
		t.Helper()
		u.setFault(func(w http.ResponseWriter, _ *http.Request) { writeStatus(w, code) })
		defer u.setFault(nil)
		// This is a path of reviews, to which the faults of the tests' upstream apply.
		if got := tp.open(tp.client, http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "Authorization", "Bearer token-"+who); got.StatusCode != code {
			t.Fatal(got.Status)
		}
	}
	for _, code := range []int{http.StatusBadRequest, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout} {
		answer("made-up", code)
		if got := of("made-up"); got.Level != seats.NewTokens {
			t.Errorf("after a %d: %+v", code, got)
		}
	}
	answer("let-in", http.StatusOK)
	answer("let-in", http.StatusBadRequest)
	if got := of("let-in"); got.Level != seats.Leases {
		t.Errorf("who was let in: %+v", got)
	}
	const admin = "system:serviceaccount:kube-system:gone"
	tp.want(http.StatusOK, admin, "/api/v1/pods?resourceVersion=0")
	if got := of(admin); got != (seats.Flow{Level: seats.SystemLeases, Caller: "user " + admin}) {
		t.Fatalf("%+v", got)
	}
	answer(admin, http.StatusUnauthorized)
	if got := of(admin); got.Level != seats.NewTokens {
		t.Errorf("whose token was revoked: %+v", got)
	}
}
