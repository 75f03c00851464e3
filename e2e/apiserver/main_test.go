package apiserver

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// deadline bounds every wait of these tests. It is long because no test measures time.
const deadline = 3 * time.Minute

// shared is the cluster of all tests of this package.
var shared *cluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(cluster.Main(m, 15*time.Minute, func(ctx context.Context) (c *cluster.Cluster, err error) {
		shared, err = cluster.Start(ctx, cluster.Options{Logf: cluster.LogToStderr})
		return shared, err
	}))
}

// server is the embedded server or kube-apiserver.
type server struct {
	config  *rest.Config
	client  *http.Client
	dynamic dynamic.Interface
}

// startBoth starts an embedded server. It defines the same custom resources at this server and at
// the shared cluster: widgets, which are namespaced, and gadgets, which are cluster-scoped. Each
// test has its own API group, because deleting a definition takes a while.
func startBoth(t *testing.T) (ctx context.Context, things schema.GroupVersion, ours, theirs *server) {
	t.Helper()
	ctx = shared.Begin(t, deadline)
	things = schema.GroupVersion{Group: strings.ToLower(t.Name()) + ".weir.dev", Version: "v1"}
	embedded, err := apiserver.New(apiserver.Options{})
	check.NoError(t, err)
	t.Cleanup(func() {
		if err := embedded.Close(); err != nil {
			t.Error(err)
		}
	})
	check.NoError(t, embedded.Start())
	ours, theirs = newServer(t, embedded.Config()), newServer(t, shared.Config())
	for _, s := range []*server{ours, theirs} {
		s.define(t, ctx, things.WithResource("widgets"), "Widget", "Namespaced")
		s.define(t, ctx, things.WithResource("gadgets"), "Gadget", "Cluster")
	}
	return ctx, things, ours, theirs
}

func newServer(t *testing.T, cfg *rest.Config) *server {
	t.Helper()
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	s := &server{config: cfg, client: cluster.HTTPClient(t, cfg)}
	var err error
	if s.dynamic, err = dynamic.NewForConfigAndClient(cfg, s.client); err != nil {
		t.Fatal(err)
	}
	return s
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// define creates the definition of a custom resource, and waits until the resource is served. It
// deletes the definition when the test ends.
func (s *server) define(t *testing.T, ctx context.Context, gvr schema.GroupVersionResource, kind, scope string) {
	t.Helper()
	name := gvr.GroupResource().String()
	spec := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": definitions.GroupVersion().String(), "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"group": gvr.Group, "scope": scope, "names": map[string]any{"plural": gvr.Resource, "kind": kind},
			"versions": []any{map[string]any{
				"name": gvr.Version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{"spec": spec}}},
			}},
		},
	}}
	if _, err := s.dynamic.Resource(definitions).Create(ctx, definition, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.dynamic.Resource(definitions).Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	testenv.EventuallyNoError(t, ctx, name+" are served", func() error {
		_, err := s.dynamic.Resource(gvr).List(ctx, metav1.ListOptions{})
		return err
	})
}

// resourcePath returns the path that a LIST of a resource requests.
func resourcePath(gv schema.GroupVersion, resource string) string {
	if gv.Group == "" {
		return "/api/" + gv.Version + "/" + resource
	}
	return "/apis/" + gv.String() + "/" + resource
}

// answer is a server's answer to a GET.
type answer struct {
	code      int
	mediaType string // of the object in the answer
	kind      string
	text      string
}

// same reports whether the answers have the same code, media type and kind. Their texts may differ.
func (a *answer) same(other *answer) bool {
	return a.code == other.code && a.mediaType == other.mediaType && a.kind == other.kind
}

// get sends a GET. accept may be empty.
func (s *server) get(t *testing.T, ctx context.Context, path, accept string) *answer {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.config.Host+path, nil)
	check.NoError(t, err)
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := s.client.Do(req)
	check.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	check.NoError(t, err)
	a := &answer{code: resp.StatusCode, text: string(body)}
	if a.code != http.StatusOK {
		return a
	}
	a.mediaType = resp.Header.Get("Content-Type")
	enc := wire.JSON
	if bytes.HasPrefix(body, []byte("k8s\x00")) {
		enc = wire.Protobuf
	}
	tm, _, err := wire.CutObject(enc, body)
	if err != nil {
		t.Fatalf("%s as %q: %v: %.200q", path, accept, err, body)
	}
	a.kind = tm.APIVersion + " " + tm.Kind
	return a
}
