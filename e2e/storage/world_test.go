package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/serve/watchcache"
	"github.com/weirproject/weir/internal/testing/check"
)

// world is the environment of one suite: kube-apiserver's store in etcd, a watch cache that follows
// the store, and an HTTP server that answers from the cache.
type world struct {
	*adapter
	client *kubernetes.Client
	lists  *storagetesting.KubernetesRecorder // counts the LISTs to etcd
	cache  *watchcache.Cache
}

// setup has the options of a world.
type setup struct {
	etcd      *cluster.Cluster
	encoding  wire.Encoding // encoding of the stored and returned objects
	indexed   bool          // the watch cache has indexes from the start
	clustered bool          // pods are cluster-scoped
	visible   bool          // see adapter.visible
	// alone selects a new etcd, whose resourceVersions start at 1. A suite needs it if it compacts
	// etcd or lets leases expire, which would affect other suites.
	alone bool
}

// newWorld creates a world, and stops it when the test ends.
func newWorld(t *testing.T, s setup) *world {
	t.Helper()
	w := &world{}
	server := s.etcd
	if s.alone {
		server = startEtcd(t)
	}
	source := w.newSource(t, server.EtcdURL())
	f := newFeed(source, s.encoding)
	t.Cleanup(f.store.Close)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	check.NoError(t, f.list(ctx))
	follow(t, f)

	cfg := watchcache.Config{Resource: podsResource(!s.clustered), Store: f.store, Encoding: s.encoding, Clock: f, History: f.history}
	if s.indexed {
		cfg.LabelSets, cfg.Resource.Fields[0].Indexed = true, true
	}
	var err error
	if w.cache, err = watchcache.New(cfg); err != nil {
		t.Fatal(err)
	}
	client := serve(t, w.cache, s.encoding)
	w.adapter = &adapter{Interface: source, client: client, feed: f, watches: newWatches(t), namespaced: !s.clustered, visible: s.visible}
	return w
}

func startEtcd(t *testing.T) *cluster.Cluster {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Options{EtcdOnly: true})
	check.NoError(t, err)
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// newSource creates kube-apiserver's store as kube-apiserver's tests of its cache do.
func (w *world) newSource(t *testing.T, etcdURL string) apistorage.Interface {
	t.Helper()
	client, err := kubernetes.New(clientv3.Config{Endpoints: []string{etcdURL}, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
	check.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() }) // Close returns its context's error
	w.lists = storagetesting.NewKubernetesRecorder(client.Kubernetes)
	client.KV = storagetesting.NewKVRecorder(client.KV, w.lists)
	client.Kubernetes = w.lists
	w.client = client
	compactor := etcd3.NewCompactor(client.Client, 0, clock.RealClock{}, nil)
	t.Cleanup(compactor.Stop)
	versioner := apistorage.APIObjectVersioner{}
	source, err := etcd3.New(client, compactor, etcdCodec,
		func() runtime.Object { return &example.Pod{} }, func() runtime.Object { return &example.PodList{} },
		"/"+t.Name(), resourcePrefix, example.SchemeGroupVersion.WithResource("pods").GroupResource(), identity.NewEncryptCheckTransformer(),
		etcd3.NewDefaultLeaseManagerConfig(), etcd3.NewDefaultDecoder(etcdCodec, versioner), versioner)
	check.NoError(t, err)
	t.Cleanup(source.Close)
	return source
}

// follow runs the feed until the test ends. It fails the test if the feed fails.
func follow(t *testing.T, f *feed) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.watch(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// serve starts an HTTP server that answers from the cache, and returns a client of the server.
func serve(t *testing.T, cache *watchcache.Cache, enc wire.Encoding) rest.Interface {
	t.Helper()
	root := "GET /apis/" + examplev1.SchemeGroupVersion.String()
	mux := http.NewServeMux()
	read := func(w http.ResponseWriter, r *http.Request) {
		rq, err := request.Parse(r)
		if err != nil {
			watchcache.WriteError(w, r, err)
			return
		}
		cache.Serve(w, r, rq)
	}
	for _, scope := range []string{"", "/namespaces/{namespace}"} {
		mux.HandleFunc(root+scope+"/pods", read)
		mux.HandleFunc(root+scope+"/pods/{name}", read)
	}
	server := httptest.NewServer(mux)
	transport := &http.Transport{}
	t.Cleanup(func() {
		cache.Close()
		transport.CloseIdleConnections()
		server.Close()
	})
	gv, contentType := examplev1.SchemeGroupVersion, wire.ContentTypeJSON
	if enc == wire.Protobuf {
		contentType = wire.ContentTypeProtobuf
	}
	client, err := rest.RESTClientForConfigAndClient(&rest.Config{
		Host: server.URL, APIPath: "/apis", QPS: -1,
		ContentConfig: rest.ContentConfig{GroupVersion: &gv, NegotiatedSerializer: codecs.WithoutConversion(), ContentType: contentType,
			AcceptContentTypes: contentType},
	}, &http.Client{Transport: transport})
	check.NoError(t, err)
	return client
}

func newWatches(t *testing.T) *watches {
	ctx, cancel := context.WithCancel(context.Background())
	ws := &watches{ctx: ctx}
	t.Cleanup(func() {
		cancel()
		ws.running.Wait()
	})
	return ws
}

// increase increases etcd's revision by a write that changes no pod. It returns the new revision.
func (w *world) increase(ctx context.Context, t *testing.T) int64 {
	t.Helper()
	resp, err := w.client.KV.Put(ctx, "increase", "")
	check.NoError(t, err)
	return resp.Header.Revision
}

// compact makes etcd and the watch cache drop states before a resourceVersion. kube-apiserver's
// cache follows etcd's compactions. The watch cache does not, so compact calls the watch cache's
// CompactTo.
func (w *world) compact(ctx context.Context, t *testing.T, resourceVersion string) {
	t.Helper()
	rv, err := w.Versioner().ParseResourceVersion(resourceVersion)
	check.NoError(t, err)
	// The argument 0 says that there was no earlier compaction.
	if _, _, _, err = etcd3.Compact(ctx, w.client.Client, 0, int64(rv)); err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, deadline, true, func(context.Context) (bool, error) {
		return w.CompactRevision() == int64(rv), nil
	})
	if err != nil {
		t.Fatal(fmt.Errorf("etcd's compaction is not seen: %w", err))
	}
	check.NoError(t, w.feed.Wait(ctx, rv))
	w.cache.CompactTo(rv)
}

// The suites use example.Pod, the internal version. The watch cache stores and serves the external
// version, examplev1.Pod.
var (
	scheme = newScheme()
	codecs = serializer.NewCodecFactory(scheme)
	// etcdCodec encodes pods as kube-apiserver's store does.
	etcdCodec = newEtcdCodec()
)

const resourcePrefix = "/pods/"

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, metav1.SchemeGroupVersion)
	metav1.AddToGroupVersion(s, examplev1.SchemeGroupVersion)
	for _, add := range []func(*runtime.Scheme) error{example.AddToScheme, examplev1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}

func newEtcdCodec() runtime.Codec {
	p := protobuf.NewSerializer(scheme, scheme)
	return codecs.CodecForVersions(p, p, examplev1.SchemeGroupVersion, runtime.InternalGroupVersioner)
}

func podsResource(namespaced bool) watchcache.Resource {
	return watchcache.Resource{
		GroupVersionResource: examplev1.SchemeGroupVersion.WithResource("pods"),
		Kind:                 "Pod",
		Namespaced:           namespaced,
		Type:                 reflect.TypeFor[examplev1.Pod](),
		Fields:               []watchcache.Field{{Label: "spec.nodeName", Paths: []string{"spec.nodeName"}}},
	}
}

// encodePod encodes a pod in the external version, which the watch cache stores.
func encodePod(enc wire.Encoding, object runtime.Object) ([]byte, error) {
	var pod examplev1.Pod
	if err := scheme.Convert(object, &pod, nil); err != nil {
		return nil, err
	}
	if enc == wire.Protobuf {
		return pod.Marshal()
	}
	pod.APIVersion, pod.Kind = examplev1.SchemeGroupVersion.String(), "Pod"
	return json.Marshal(&pod)
}

// internal converts an object that a client received to the type that the suites expect: a pod in
// the internal version, or a Status.
func internal(object runtime.Object) (runtime.Object, error) {
	switch o := object.(type) {
	case *metav1.Status:
		return o, nil
	case *examplev1.Pod:
		pod := &example.Pod{}
		return pod, scheme.Convert(o, pod, nil)
	}
	return nil, fmt.Errorf("a %T is none of what a watch of pods gives", object)
}
