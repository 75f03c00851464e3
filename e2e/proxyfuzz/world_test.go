package proxyfuzz

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
	"github.com/weirproject/weir/proxy"
)

// world is a kube-apiserver, the proxy in front of it, and their objects.
type world struct {
	cluster *cluster.Cluster
	proxy   *proxy.Server
	client  kubernetes.Interface // of the admin, for kube-apiserver
	objects dynamic.Interface    // of the admin, for kube-apiserver
	through dynamic.Interface    // of the admin, for the proxy
	front   *tls.Certificate     // certificate of a front proxy
	callers []caller
	// These are resourceVersions before (then) and after (now) some objects were changed and deleted.
	then, now uint64
	// frozen has the resourceVersions, by UID, of all objects that are not permissions.
	frozen map[string]string
	// known has the objects of frozen and the roles of the round.
	known           map[string]string
	server, proxied *side
}

// settling bounds the time that until waits.
const settling = 30 * time.Second

// recheck is the time for which the proxy caches answers about callers. Each round must wait that
// long.
const recheck = 200 * time.Millisecond

// newWorld starts the servers and creates the objects. The servers are stopped when the test ends.
func newWorld(t *testing.T, ctx context.Context) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{frozen: map[string]string{}}
	var by []*testenv.Authority
	for _, name := range []string{"callers.crt", "fronts.crt", "foreign.crt"} {
		a, err := testenv.NewAuthority(filepath.Join(dir, name))
		check.NoError(t, err)
		by = append(by, a)
	}
	ca, fronts, foreign := by[0], by[1], by[2]
	tokens := newMinter(t, filepath.Join(dir, "tokens.pub"))
	var err error
	w.cluster, err = cluster.Start(ctx, cluster.Options{
		Authorization: cluster.RBAC,
		Users:         []cluster.User{{Name: "ann", Groups: []string{"staff"}}, {Name: "bob"}, {Name: "eve", Groups: []string{"staff", "guests"}}},
		APIServerArgs: []string{
			// This feature gate is alpha. Without it, kube-apiserver ignores shardSelector.
			"--feature-gates=ShardedListAndWatch=true",
			"--client-ca-file=" + filepath.Join(dir, "callers.crt"),
			"--requestheader-client-ca-file=" + filepath.Join(dir, "fronts.crt"),
			"--requestheader-allowed-names=front",
			"--requestheader-username-headers=X-Remote-User",
			"--requestheader-uid-headers=X-Remote-Uid",
			"--requestheader-group-headers=X-Remote-Group",
			"--requestheader-extra-headers-prefix=X-Remote-Extra-",
			"--service-account-key-file=" + filepath.Join(dir, "tokens.pub"),
		},
		Logf: cluster.LogToStderr,
	})
	check.NoError(t, err)
	t.Cleanup(func() { _ = w.cluster.Stop() })
	admin := cluster.HTTPClient(t, w.cluster.Config())
	if w.client, err = kubernetes.NewForConfigAndClient(w.cluster.Config(), admin); err != nil {
		t.Fatal(err)
	}
	if w.objects, err = dynamic.NewForConfigAndClient(w.cluster.Config(), admin); err != nil {
		t.Fatal(err)
	}
	w.fill(t, ctx)
	tokens.issuer = w.cluster.URL()
	w.callers = newCallers(t, ctx, w, ca, fronts, foreign, tokens)
	w.startProxy(t, ctx)
	w.front = fronts.Issue(t, "front")
	cfg := &rest.Config{Host: w.proxy.URL(), QPS: -1, BearerToken: w.cluster.Config().BearerToken, TLSClientConfig: rest.TLSClientConfig{CAData: w.proxy.CAData()}}
	if w.through, err = dynamic.NewForConfigAndClient(cfg, cluster.HTTPClient(t, cfg)); err != nil {
		t.Fatal(err)
	}
	w.server, w.proxied = newSide(t, w.cluster.Config().Host, w.cluster.Config().CAData), newSide(t, w.proxy.URL(), w.proxy.CAData())
	return w
}

func (w *world) startProxy(t *testing.T, ctx context.Context) {
	t.Helper()
	o := proxy.Options{
		Upstream: w.cluster.Config(), Recheck: recheck,
		Authentication: proxy.Authentication{TokenTTL: recheck, AllowTTL: recheck, DenyTTL: recheck},
		Log:            slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	for _, r := range resources {
		if r.held {
			o.Resources = append(o.Resources, r.argument())
		}
		if r.cached {
			o.TrustCache = append(o.TrustCache, r.argument())
		}
	}
	var err error
	if w.proxy, err = proxy.New(ctx, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	check.NoError(t, w.proxy.Start())
	ready := cluster.HTTPClient(t, &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: w.proxy.CAData()}})
	until(t, ctx, "the proxy is ready", func() bool {
		resp, err := ready.Get(w.proxy.URL() + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// until waits until cond returns true. It fails the test if that takes longer than settling (30 s).
func until(t *testing.T, ctx context.Context, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	testenv.Eventually(t, ctx, what, cond)
}

// fill creates the objects of each resource. It then changes some of them, and deletes some.
func (w *world) fill(t *testing.T, ctx context.Context) {
	t.Helper()
	for _, r := range resources {
		if r.group == fuzzGroup {
			w.define(t, ctx, r)
		}
	}
	for _, ns := range namespaces {
		w.make(t, ctx, namespaceResource, "", ns, 0)
	}
	for i, r := range resources {
		switch {
		case r == namespaceResource:
		case r.namespaced:
			for _, ns := range namespaces {
				for j, name := range r.names {
					w.make(t, ctx, r, ns, name, i+j)
				}
			}
		default:
			for j, name := range r.names {
				w.make(t, ctx, r, "", name, i+j)
			}
		}
	}
	w.then = w.now
	for _, r := range resources {
		in := []string{""}
		if r.namespaced {
			in = namespaces
		}
		for _, ns := range in {
			of := w.objects.Resource(r.gvr()).Namespace(ns)
			name, gone := r.names[0], r.names[len(r.names)-1]
			if r == namespaceResource {
				name, gone = namespaces[0], ""
			}
			patch := []byte(`{"metadata":{"labels":{"color":"blue","changed":"yes"}}}`)
			o, err := of.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
			check.NoError(t, err)
			w.see(t, o)
			if gone == "" {
				continue
			}
			check.NoError(t, of.Delete(ctx, gone, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
		}
	}
	w.make(t, ctx, configMapResource, namespaces[0], "last", 0)
	w.frozen = w.list(t, ctx)
}

func (w *world) make(t *testing.T, ctx context.Context, r *resource, ns, name string, i int) {
	t.Helper()
	o := &unstructured.Unstructured{Object: r.object(i)}
	o.SetAPIVersion(r.gvr().GroupVersion().String())
	o.SetKind(r.kind)
	o.SetName(name)
	o.SetLabels(map[string]string{"color": colors[i%len(colors)], "tier": fmt.Sprint(i % 2)})
	o, err := w.objects.Resource(r.gvr()).Namespace(ns).Create(ctx, o, metav1.CreateOptions{})
	check.NoError(t, err)
	w.see(t, o)
}

func (w *world) see(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	version, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	check.NoError(t, err)
	w.now = max(w.now, version)
}

// define creates the CustomResourceDefinition of a resource, and waits until kube-apiserver serves
// the resource.
func (w *world) define(t *testing.T, ctx context.Context, r *resource) {
	t.Helper()
	scope := "Cluster"
	if r.namespaced {
		scope = "Namespaced"
	}
	text := map[string]any{"type": "string"}
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": definitions.GroupVersion().String(), "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": r.name + "." + r.group},
		"spec": map[string]any{
			"group": r.group, "scope": scope, "names": map[string]any{"plural": r.name, "kind": r.kind, "listKind": r.kind + "List"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
				"selectableFields": []any{map[string]any{"jsonPath": ".spec.color"}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
					"spec":   map[string]any{"type": "object", "properties": map[string]any{"color": text}},
					"status": map[string]any{"type": "object", "properties": map[string]any{"said": text}},
				}}},
			}},
		},
	}}
	if _, err := w.objects.Resource(definitions).Create(ctx, crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, ctx, r.name+" are served", func() bool {
		_, err := w.objects.Resource(r.gvr()).List(ctx, metav1.ListOptions{})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsTooManyRequests(err) {
			t.Fatal(err)
		}
		return err == nil
	})
}

// list returns the resourceVersions, by UID, of all objects that are not permissions.
func (w *world) list(t *testing.T, ctx context.Context) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, r := range resources {
		if !r.permissions {
			maps.Copy(all, versions(t, ctx, w.objects, r, metav1.ListOptions{}))
		}
	}
	return all
}

// begin returns a context for the test, which ends after limit. When the test ends, it checks that
// no goroutine leaks.
func begin(t *testing.T, limit time.Duration) context.Context {
	leaks := cluster.Leaks()
	ctx, cancel := context.WithTimeoutCause(context.Background(), limit, errors.New("the fuzzer took too long"))
	t.Cleanup(func() {
		cancel()
		goleak.VerifyNone(t, leaks...)
	})
	return ctx
}
