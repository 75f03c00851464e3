package proxy

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/reflector"
)

var (
	podsResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	widgets      = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
)

// TestCachedOnDemand: what somebody who may have it asks for is cached from then on, if there is a
// budget for it.
func TestCachedOnDemand(t *testing.T) {
	u := startUpstream(t, apiserver.Options{Pods: 50})
	f := startProxy(t, u, Options{MemoryBudget: 64 << 20})
	define(f)
	u.deny(func(s authorizationv1.SubjectAccessReviewSpec) bool { return s.User == "nobody" })
	f.get("nobody", "/api/v1/pods?resourceVersion=0")
	f.get("jane", "/api/v1/namespaces/default/pods/x") // must be fresh: caching would not help
	if res := f.proxy.resources.find(podsResource); res != nil {
		t.Error("taken in for somebody who may not have it")
	}
	for _, path := range []string{"/api/v1/pods?resourceVersion=0", "/apis/example.com/v1/widgets?resourceVersion=0&fieldSelector=spec.color%3Dred"} {
		f.until(path+" is answered from here", func() bool {
			u.forwarded("")
			code, body := f.get("jane", path)
			if code != http.StatusOK || strings.Contains(path, "widgets") && !strings.Contains(body, `"kind":"Widgetry"`) {
				t.Fatalf("%d %.200s", code, body)
			}
			return len(u.forwarded(strings.SplitN(path, "?", 2)[0])) == 0
		})
	}
	// Over the budget the one that nobody watches goes, and is not taken in again.
	lines := f.watch("jane", "/apis/example.com/v1/widgets?watch=true")
	f.until("it watches", func() bool { return f.proxy.resources.find(widgets).watchers.Load() == 1 })
	f.proxy.resources.budget.limit.Store(1)
	f.until("pods are let go", func() bool { return f.proxy.resources.find(podsResource) == nil })
	for range lines { // over the budget still: this one is ended
	}
	if f.proxy.resources.canAdd(podsResource) {
		t.Error("it would be taken in again")
	}
}

// TestListsInTurn: a proxy that begins to cache many resources does not list them all at once.
func TestListsInTurn(t *testing.T) {
	u := startUpstream(t, apiserver.Options{Pods: 3})
	const atOnce = 8
	var lists, most atomic.Int32
	full := make(chan struct{})
	open := sync.OnceFunc(func() { close(full) })
	u.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if !strings.HasPrefix(r.URL.Path, "/api/v1/") || r.URL.Query().Has("watch") || r.URL.Query().Has("limit") {
				return next.RoundTrip(r)
			}
			now := lists.Add(1)
			for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
			}
			if now == atOnce {
				open()
			}
			select {
			case <-full:
			case <-r.Context().Done():
			}
			defer lists.Add(-1)
			return next.RoundTrip(r)
		})
	})
	f := startProxy(t, u, Options{Resources: []string{
		"configmaps", "endpoints", "events", "limitranges", "namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes", "pods",
		"replicationcontrollers", "resourcequotas", "secrets", "serviceaccounts", "services",
	}})
	f.ready()
	if n := most.Load(); n != atOnce {
		t.Errorf("%d LISTs at a time, want %d", n, atOnce)
	}
}

// TestIdle: what nobody reads is let go.
func TestIdle(t *testing.T) {
	u := startUpstream(t, apiserver.Options{Pods: 3})
	f := startProxy(t, u, Options{MemoryBudget: 64 << 20})
	f.get("jane", "/api/v1/pods?resourceVersion=0")
	f.until("pods are cached", func() bool {
		res := f.proxy.resources.find(podsResource)
		return res != nil && res.ready.Load() != nil
	})
	f.proxy.resources.evict(time.Now().Add(idleTTL + time.Minute))
	f.until("pods are let go", func() bool { return f.proxy.resources.find(podsResource) == nil })
}

// TestCannotCache: what the upstream does not have, or does not let the proxy list, is forwarded.
func TestCannotCache(t *testing.T) {
	t.Parallel()
	u := startUpstream(t, apiserver.Options{})
	f := startProxy(t, u, Options{MemoryBudget: 64 << 20})
	u.faults.Add(apiserver.Rule{Match: apiserver.Match("list", "secrets"), Err: apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", nil)})
	for path, code := range map[string]int{"/api/v1/nothing?resourceVersion=0": 404, "/api/v1/secrets?resourceVersion=0": 403} {
		got, _ := f.get("jane", path)
		if got != code {
			t.Errorf("%s: %d", path, got)
		}
		gvr := schema.GroupVersionResource{Version: "v1", Resource: strings.TrimSuffix(strings.TrimPrefix(path, "/api/v1/"), "?resourceVersion=0")}
		f.until(path+" is refused", func() bool { return !f.proxy.resources.canAdd(gvr) && f.proxy.resources.find(gvr) == nil })
		if got, _ = f.get("jane", path); got != code {
			t.Errorf("%s then: %d", path, got)
		}
	}
}

// TestNewlyDefined: a resource of which it will be known in a moment who serves it is tried again
// in a moment; one that may not be cached is not.
func TestNewlyDefined(t *testing.T) {
	u := startUpstream(t, apiserver.Options{})
	for code, want := range map[int]time.Duration{http.StatusNotFound: undefinedTTL, http.StatusForbidden: rejectedTTL} {
		u.aggregate(func(string) (int, string) { return code, "" })
		f := startProxy(t, u, Options{MemoryBudget: 64 << 20})
		f.get("jane", "/api/v1/pods?resourceVersion=0")
		f.until("pods are refused", func() bool { return !f.proxy.resources.canAdd(podsResource) })
		until, _ := f.proxy.resources.rejectedUntil.Get(podsResource)
		if left := time.Until(until.(time.Time)); left > want || left < want-time.Minute {
			t.Errorf("%d: for %s", code, left)
		}
	}
}

// TestNotServedAnyMore: a resource that was cached, and that the upstream does not know any more,
// is forwarded after some tries, and tried again in a moment.
func TestNotServedAnyMore(t *testing.T) {
	u := startUpstream(t, apiserver.Options{})
	f := startProxy(t, u, Options{MemoryBudget: 64 << 20})
	gone := &reflector.Error{Phase: reflector.Listing, Sentinel: reflector.ErrUnknownResource}
	for _, tt := range []struct {
		err      error
		attempts int
		ends     bool
	}{
		{gone, finalMissing - 1, false},
		{gone, finalMissing, true},
		{&reflector.Error{Sentinel: reflector.ErrForbidden}, finalAttempts - 1, false},
		{&reflector.Error{Sentinel: reflector.ErrForbidden}, finalAttempts, true},
		{&reflector.Error{Sentinel: reflector.ErrUnreachable}, 100, false},
	} {
		var ended error
		res := &resource{resources: f.proxy.resources, gvr: podsResource}
		res.onStatus(&session{}, reflector.Status{Err: tt.err, Attempts: tt.attempts}, func(err error) { ended = err })
		if (ended != nil) != tt.ends {
			t.Errorf("%v, %d times: %v", tt.err, tt.attempts, ended)
		}
	}
	f.proxy.resources.reject(podsResource, gone)
	until, _ := f.proxy.resources.rejectedUntil.Get(podsResource)
	if left := time.Until(until.(time.Time)); left > undefinedTTL {
		t.Errorf("refused for %s", left)
	}
}

// TestVersionMovesOn: a resource that is configured without a version is cached in the one that the
// upstream prefers, also when that changes, or is served no more.
func TestVersionMovesOn(t *testing.T) {
	t.Parallel()
	u := startUpstream(t, apiserver.Options{})
	wait := defaultTimeouts
	wait.origin, wait.restart = 20*time.Millisecond, time.Millisecond
	f := startProxy(t, u, Options{Resources: []string{"widgets.example.com"}, timeouts: wait})
	define(f)
	isCached := func(version string) func() bool {
		return func() bool {
			res := f.proxy.resources.find(widgets.GroupResource().WithVersion(version))
			return res != nil && res.ready.Load() != nil
		}
	}
	f.until("v1 is cached", isCached("v1"))
	for _, step := range []struct {
		versions map[string]bool // whether they are served; the last one is stored
		version  string
	}{
		{map[string]bool{"v1": true, "v2": true}, "v2"},
		{map[string]bool{"v2": false, "v3": true}, "v3"},
	} {
		serveVersions(f, step.versions)
		f.until(step.version+" is cached", isCached(step.version))
		for _, res := range f.proxy.resources.all() {
			if res.gvr.Version != step.version {
				t.Errorf("%s is cached too", res.gvr)
			}
		}
		path := "/apis/example.com/" + step.version + "/widgets?resourceVersion=0"
		u.forwarded("")
		if code, _ := f.get("jane", path); code != http.StatusOK || len(u.forwarded("/apis")) > 0 {
			t.Errorf("%s is answered %d, or forwarded", path, code)
		}
	}
}

// serveVersions has the widgets served in these versions, of which the last one is stored.
func serveVersions(f *fixture, versions map[string]bool) {
	f.t.Helper()
	client := definitions(f)
	crd, err := client.Get(f.ctx, "widgets.example.com", metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	var all []any
	for i, name := range slices.Sorted(maps.Keys(versions)) {
		all = append(all, map[string]any{"name": name, "served": versions[name], "storage": i == len(versions)-1})
	}
	if err := unstructured.SetNestedSlice(crd.Object, all, "spec", "versions"); err != nil {
		f.t.Fatal(err)
	}
	if _, err := client.Update(f.ctx, crd, metav1.UpdateOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

// definitions returns a client for CustomResourceDefinitions that does not go through the proxy.
func definitions(f *fixture) dynamic.ResourceInterface {
	f.t.Helper()
	client, err := dynamic.NewForConfig(&rest.Config{Host: "http://past", QPS: -1, Transport: past{f.upstream.Server}})
	if err != nil {
		f.t.Fatal(err)
	}
	return client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
}

// define defines the widgets, and makes one.
func define(f *fixture) {
	f.t.Helper()
	client, err := dynamic.NewForConfig(&rest.Config{Host: "http://past", QPS: -1, Transport: past{f.upstream.Server}})
	if err != nil {
		f.t.Fatal(err)
	}
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets.example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "Widgetry"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "selectableFields": []any{map[string]any{"jsonPath": ".spec.color"}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
	if _, err := definitions(f).Create(f.ctx, crd, metav1.CreateOptions{}); err != nil {
		f.t.Fatal(err)
	}
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"}, "spec": map[string]any{"color": "red"},
	}}
	if _, err := client.Resource(widgets).Namespace("default").Create(f.ctx, widget, metav1.CreateOptions{}); err != nil {
		f.t.Fatal(err)
	}
}
