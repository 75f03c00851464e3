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
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/proxy/internal/mirror"
)

var (
	podsResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	widgets      = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
)

// TestCachedOnDemand checks that the proxy caches a resource when an authorized caller requests it
// for the first time and there is a budget for it.
func TestCachedOnDemand(t *testing.T) {
	u, tp := start(t, apiserver.Options{Pods: 50}, Options{MemoryBudget: 64 << 20})
	define(tp)
	u.deny(func(s authorizationv1.SubjectAccessReviewSpec) bool { return s.User == "denied" })
	tp.get("denied", "/api/v1/pods?resourceVersion=0")
	tp.get("jane", "/api/v1/namespaces/default/pods/x") // not answered from the cache
	if res := tp.server.mirror.Find(podsResource); res != nil {
		t.Error("cached for a caller who may not read it")
	}
	for _, path := range []string{"/api/v1/pods?resourceVersion=0", "/apis/example.com/v1/widgets?resourceVersion=0&fieldSelector=spec.color%3Dred"} {
		tp.until(path+" is answered from here", func() bool {
			u.forwarded("")
			code, body := tp.get("jane", path)
			if code != http.StatusOK || strings.Contains(path, "widgets") && !strings.Contains(body, `"kind":"Widgetry"`) {
				t.Fatalf("%d %.200s", code, body)
			}
			return len(u.forwarded(strings.SplitN(path, "?", 2)[0])) == 0
		})
	}
	// Over the budget, the resource without watches is evicted, and not cached again.
	lines := tp.watch("jane", "/apis/example.com/v1/widgets?watch=true&resourceVersion=0")
	tp.until("it watches", func() bool { return tp.server.mirror.Find(widgets).Watching() == 1 })
	tp.server.mirror.Budget.SetLimit(1)
	tp.until("pods are evicted", func() bool { return tp.server.mirror.Find(podsResource) == nil })
	for range lines { // still over the budget: the proxy ends this watch
	}
	if tp.server.mirror.CanAdd(podsResource) {
		t.Error("it would be taken in again")
	}
}

// TestMaxLists checks that a proxy that starts to cache many resources does not list all of them
// at the same time.
func TestMaxLists(t *testing.T) {
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
	tp := startProxy(t, u, Options{Resources: []string{
		"configmaps", "endpoints", "events", "limitranges", "namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes", "pods",
		"replicationcontrollers", "resourcequotas", "secrets", "serviceaccounts", "services",
	}})
	tp.ready()
	if n := most.Load(); n != atOnce {
		t.Errorf("%d concurrent LISTs, want %d", n, atOnce)
	}
}

// TestIdle checks that the proxy evicts a resource that no client reads.
func TestIdle(t *testing.T) {
	_, tp := start(t, apiserver.Options{Pods: 3}, Options{MemoryBudget: 64 << 20})
	tp.get("jane", "/api/v1/pods?resourceVersion=0")
	tp.until("pods are cached", func() bool { return tp.serves(podsResource) })
	tp.server.mirror.Evict(time.Now().Add(mirror.IdleTTL + time.Minute))
	tp.until("pods are evicted", func() bool { return tp.server.mirror.Find(podsResource) == nil })
}

// TestCannotCache checks that the proxy forwards reads of a resource that the upstream does not
// have, or that the proxy may not list.
func TestCannotCache(t *testing.T) {
	t.Parallel()
	u, tp := start(t, apiserver.Options{}, Options{MemoryBudget: 64 << 20})
	u.faults.Add(apiserver.Rule{Match: apiserver.Match("list", "secrets"), Err: apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", nil)})
	for path, code := range map[string]int{"/api/v1/nothing?resourceVersion=0": 404, "/api/v1/secrets?resourceVersion=0": 403} {
		got, _ := tp.get("jane", path)
		if got != code {
			t.Errorf("%s: %d", path, got)
		}
		gvr := schema.GroupVersionResource{Version: "v1", Resource: strings.TrimSuffix(strings.TrimPrefix(path, "/api/v1/"), "?resourceVersion=0")}
		tp.until(path+" is refused", func() bool { return !tp.server.mirror.CanAdd(gvr) && tp.server.mirror.Find(gvr) == nil })
		if got, _ = tp.get("jane", path); got != code {
			t.Errorf("%s then: %d", path, got)
		}
	}
}

// TestNewlyDefined checks when the proxy retries to cache a resource whose APIService it cannot
// read. If the APIService does not exist yet, the proxy retries after UndefinedTTL. If the proxy
// may not read the APIService, it retries after RejectedTTL.
func TestNewlyDefined(t *testing.T) {
	u := startUpstream(t, apiserver.Options{})
	for code, want := range map[int]time.Duration{http.StatusNotFound: mirror.UndefinedTTL, http.StatusForbidden: mirror.RejectedTTL} {
		u.aggregate(func(string) (int, string) { return code, "" })
		tp := startProxy(t, u, Options{MemoryBudget: 64 << 20})
		tp.get("jane", "/api/v1/pods?resourceVersion=0")
		tp.until("pods are refused", func() bool { return !tp.server.mirror.CanAdd(podsResource) })
		if left := time.Until(tp.server.mirror.Rejection(podsResource)); left > want || left < want-time.Minute {
			t.Errorf("%d: for %s", code, left)
		}
	}
}

// TestVersionMovesOn checks that a resource that is configured without a version is cached in the
// version that the upstream prefers. When the preferred version changes or is no longer served, the
// proxy caches the new one.
func TestVersionMovesOn(t *testing.T) {
	t.Parallel()
	wait := timing(func(w *timeouts) { w.Origin, w.Restart = 20*time.Millisecond, time.Millisecond })
	u, tp := start(t, apiserver.Options{}, Options{Resources: []string{"widgets.example.com"}, timeouts: wait})
	define(tp)
	isCached := func(version string) func() bool {
		return func() bool { return tp.serves(widgets.GroupResource().WithVersion(version)) }
	}
	tp.until("v1 is cached", isCached("v1"))
	for _, step := range []struct {
		versions map[string]bool // whether each version is served; the last one is the storage version
		version  string
	}{
		{map[string]bool{"v1": true, "v2": true}, "v2"},
		{map[string]bool{"v2": false, "v3": true}, "v3"},
	} {
		serveVersions(tp, step.versions)
		tp.until(step.version+" is cached", isCached(step.version))
		for _, res := range tp.server.mirror.All() {
			if res.GVR().Version != step.version {
				t.Errorf("%s is cached too", res.GVR())
			}
		}
		path := "/apis/example.com/" + step.version + "/widgets?resourceVersion=0"
		u.forwarded("")
		if code, _ := tp.get("jane", path); code != http.StatusOK || len(u.forwarded("/apis")) > 0 {
			t.Errorf("%s is answered %d, or forwarded", path, code)
		}
	}
}

// serveVersions sets which versions of the widgets are served. The last version is the storage
// version.
func serveVersions(tp *testProxy, versions map[string]bool) {
	tp.t.Helper()
	client := definitions(tp)
	crd, err := client.Get(tp.ctx, "widgets.example.com", metav1.GetOptions{})
	check.NoError(tp.t, err)
	var all []any
	for i, name := range slices.Sorted(maps.Keys(versions)) {
		all = append(all, map[string]any{"name": name, "served": versions[name], "storage": i == len(versions)-1})
	}
	check.NoError(tp.t, unstructured.SetNestedSlice(crd.Object, all, "spec", "versions"))
	must(tp.t)(client.Update(tp.ctx, crd, metav1.UpdateOptions{}))
}

// definitions returns a client for CustomResourceDefinitions that does not go through the proxy.
func definitions(tp *testProxy) dynamic.ResourceInterface {
	tp.t.Helper()
	client, err := dynamic.NewForConfig(&rest.Config{Host: "http://past", QPS: -1, Transport: past{tp.upstream.Server}})
	check.NoError(tp.t, err)
	return client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
}

// define creates the definition of the widgets, and one widget.
func define(tp *testProxy) {
	tp.t.Helper()
	client, err := dynamic.NewForConfig(&rest.Config{Host: "http://past", QPS: -1, Transport: past{tp.upstream.Server}})
	check.NoError(tp.t, err)
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
	must(tp.t)(definitions(tp).Create(tp.ctx, crd, metav1.CreateOptions{}))
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"}, "spec": map[string]any{"color": "red"},
	}}
	must(tp.t)(client.Resource(widgets).Namespace("default").Create(tp.ctx, widget, metav1.CreateOptions{}))
}
