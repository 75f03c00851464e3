package mirror

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/testing/check"
)

// strictly parses a GET of a URL with request.Strict. It fails the test if Strict does not accept
// the request.
func strictly(t *testing.T, target string) *request.Request {
	t.Helper()
	rq := request.Strict(httptest.NewRequest(http.MethodGet, target, nil))
	if rq == nil {
		t.Fatalf("%s is not strict", target)
	}
	return rq
}

// TestNotServedAnyMore checks that a resource that was cached, and that the upstream no longer
// serves, may be cached again after UndefinedTTL.
func TestNotServedAnyMore(t *testing.T) {
	m := withoutUpstream(t, func(string) {})
	gone := &reflector.Error{Phase: reflector.Listing, Sentinel: reflector.ErrUnknownResource}
	m.reject(pods, gone)
	if left := time.Until(m.Rejection(pods)); left > UndefinedTTL {
		t.Errorf("refused for %s", left)
	}
}

// TestByPreference checks that among several versions of a resource the configured version comes
// first, and then the version that was requested earliest.
func TestByPreference(t *testing.T) {
	widgets := schema.GroupResource{Group: "example.com", Resource: "widgets"}
	m := New(Config{Resources: []schema.GroupVersionResource{widgets.WithVersion("v3")}})
	for i, version := range []string{"v2", "v1"} {
		gvr := widgets.WithVersion(version)
		m.byGVR[gvr] = newResource(m, gvr, settings{onDemand: true})
		m.byGVR[gvr].created = time.Now().Add(time.Duration(i) * time.Second)
	}
	var order []string
	for _, res := range m.byPreference() {
		order = append(order, res.GVR().Version)
	}
	if want := []string{"v3", "v2", "v1"}; !slices.Equal(order, want) {
		t.Errorf("got %q", order)
	}
}

// TestSendsState checks that SendsState is true for a WATCH that starts with the state, and false
// for a LIST of a small page. A WATCH ignores its limit.
func TestSendsState(t *testing.T) {
	for query, want := range map[string]struct{ State, small bool }{
		"":                                  {State: true},
		"limit=1":                           {small: true},
		"limit=500":                         {State: true},
		"resourceVersion=5&limit=500":       {},
		"watch=1":                           {State: true},
		"watch=1&limit=1":                   {State: true},
		"watch=1&limit=1&resourceVersion=0": {State: true},
		"watch=1&limit=1&resourceVersion=5": {},
		"watch=1&limit=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=5": {State: true},
	} {
		rq := strictly(t, "/api/v1/pods?"+query)
		if state, small := SendsState(rq), smallPage(rq); state != want.State || small != want.small {
			t.Errorf("%s: sends the state: %v, small: %v, want %+v", query, state, small, want)
		}
	}
}

// TestOrigin checks that without an aggregator the upstream itself serves all resources, and that
// with an aggregator an unreadable APIService causes errUnknownOrigin.
func TestOrigin(t *testing.T) {
	var aggregates atomic.Bool
	var mu sync.Mutex
	var names []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code := http.StatusNotFound
		if aggregates.Load() {
			code = http.StatusForbidden
			mu.Lock()
			names = append(names, path.Base(r.URL.Path))
			mu.Unlock()
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","code":%d,"reason":%q}`, code, metav1.StatusReason(strings.ReplaceAll(http.StatusText(code), " ", "")))
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	check.NoError(t, err)
	d := discoverer{client.Discovery().RESTClient(), patience}
	widgets := schema.GroupVersion{Group: "example.com", Version: "v1"}
	if err := d.servedLocally(t.Context(), widgets); err != nil {
		t.Errorf("without an aggregator: %v", err)
	}
	aggregates.Store(true)
	for _, gv := range []schema.GroupVersion{widgets, pods.GroupVersion()} {
		if err := d.servedLocally(t.Context(), gv); !errors.Is(err, errUnknownOrigin) {
			t.Errorf("%s: %v", gv, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(names, " "); got != "v1.example.com v1." {
		t.Errorf("asked for %s", got)
	}
}

// TestReadiness checks that a configured resource delays readiness while it is loaded for the first
// time, but for at most initialLoadTimeout. A resource that the upstream fails to list delays
// readiness only while the upstream is not healthy.
func TestReadiness(t *testing.T) {
	m := withoutUpstream(t, func(string) {})
	res := m.load(t, "pods")
	now := time.Now()
	if !res.delaysReadiness(now) || !res.delaysReadiness(now.Add(initialLoadTimeout/2)) || res.delaysReadiness(now.Add(initialLoadTimeout)) {
		t.Error("how long it delays readiness")
	}
	for n := range finalAttempts {
		res.take(input{typ: inStatus, attempts: n + 1, err: apierrors.NewInternalError(errors.New("not well"))})
	}
	if got, want := m.Readiness(true), (Readiness{"pods", "forwarded: failing", false}); len(got) != 1 || got[0] != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := m.Readiness(false), (Readiness{"pods", "being read", true}); got[0] != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	res.take(input{typ: inListed})
	if got, want := m.Readiness(true), (Readiness{"pods", "ok", false}); got[0] != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	res.take(input{typ: inStatus, attempts: 1, err: errors.New("broken")})
	if got, want := m.Readiness(true), (Readiness{"pods", "ok, but behind", false}); got[0] != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestAwaitReread checks that a bounded number of requests wait until a resource is cached.
func TestAwaitReread(t *testing.T) {
	m := withoutUpstream(t, func(string) {})
	m.cfg.Timeouts.Reread = patience
	res := m.load(t, "pods")
	st := *res.State()
	st.objects, st.redefined = MinProofObjects, time.Now()
	res.published.Store(&st)
	rd, _ := m.Read(strictly(t, "/api/v1/pods?resourceVersion=0"), false)
	var all sync.WaitGroup
	for range maxRereadWaiters {
		all.Go(func() { rd.awaitReread(t.Context()) })
	}
	waitFor(t, func() bool { return res.Waiting() == maxRereadWaiters })
	rd.awaitReread(t.Context()) // a request above the bound does not wait
	res.take(input{typ: inUnwell})
	check.Equal(t, res.Waiting(), maxRereadWaiters, "wait after a state in which the resource is not cached")
	res.take(input{typ: inListed})
	all.Wait()
}

// TestCollect checks that a resource has metrics, and more of them while a session serves.
func TestCollect(t *testing.T) {
	m := withoutUpstream(t, func(string) {})
	res := m.load(t, "pods")
	collect := func() map[string]float64 {
		got := map[string]float64{}
		note := func(name, _ string, value float64, labels ...string) {
			got[strings.Join(append([]string{name}, labels...), ",")] = value
		}
		m.Collect(make(chan prometheus.Metric, 10), note, note)
		return got
	}
	const current, state = "weir_proxy_current,group,,resource,pods", "weir_proxy_resource_state,group,,resource,pods,state,"
	before := collect()
	res.take(input{typ: inListed})
	after := collect()
	if before[current] != 0 || before[state+"reading"] != 1 || after[current] != 1 || after[state+"current"] != 1 || len(after) < 2*len(before) {
		t.Errorf("%v, and then %v", before, after)
	}
}
