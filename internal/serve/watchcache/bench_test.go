package watchcache

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/tools/process"
)

// pods is a watch cache of simulated pods, which its store keeps as protobuf. The benchmarks call
// it directly instead of over HTTP.
type pods struct {
	sim     *podsim.Pods
	store   *store.Store
	writer  *store.Writer
	history *History
	cache   *Cache
	rv      uint64
	rnd     *rand.Rand
}

const (
	protobufPods = "application/vnd.kubernetes.protobuf"
	jsonPods     = "application/json"
	podMetadata  = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

func newPods(tb testing.TB, n int) *pods {
	tb.Helper()
	p := &pods{sim: podsim.New(n, 1), rnd: rand.New(rand.NewPCG(1, 1))}
	p.store = store.New(store.Config{Encoding: wire.Protobuf, KeepLog: true})
	p.writer = p.store.Writer(store.Scope{})
	p.writer.BeginReplace(false)
	for i := range n {
		p.put(tb, p.sim.Pod(i))
	}
	p.writer.EndReplace(resourceversion.Format(p.rv))
	p.history = NewHistory(0, p.rv, p.store.Revision())
	pod := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	var err error
	p.cache, err = New(Config{
		Resource: Resource{
			GroupVersionResource: pod.GroupVersion().WithResource("pods"), Kind: pod.Kind, Namespaced: true,
			Type: reflect.TypeFor[corev1.Pod](), Fields: BuiltinFields(pod),
		},
		Store: p.store, Encoding: wire.Protobuf, History: p.history,
	})
	check.NoError(tb, err)
	tb.Cleanup(func() {
		p.cache.Close()
		p.store.Close()
	})
	return p
}

func (p *pods) put(tb testing.TB, pod *corev1.Pod) {
	tb.Helper()
	p.rv++
	pod.ResourceVersion = resourceversion.Format(p.rv)
	raw, err := pod.Marshal()
	check.NoError(tb, err)
	var m wire.Meta
	check.NoError(tb, wire.ReadMeta(wire.Protobuf, raw, &m))
	check.NoError(tb, p.writer.Put(&m, raw))
}

// touch changes a random pod's status, as a kubelet does.
func (p *pods) touch(tb testing.TB) {
	tb.Helper()
	pod := p.sim.Pod(p.rnd.IntN(p.sim.Len()))
	podsim.Touch(pod, p.rnd)
	p.put(tb, pod)
	if p.writer.Flush() == 1 {
		p.history.Add(p.rv, p.store.Revision())
	}
	p.writer.Progress(resourceversion.Format(p.rv))
}

// sink is a client that accepts and counts all bytes.
type sink struct {
	header http.Header
	bytes  *atomic.Int64
	begun  chan struct{} // closed by the headers; nil: no waiter
}

func newSink() *sink { return &sink{header: http.Header{}, bytes: new(atomic.Int64)} }

func (s *sink) Header() http.Header { return s.header }
func (s *sink) Flush()              {}
func (s *sink) WriteHeader(int) {
	if s.begun != nil {
		close(s.begun)
	}
}
func (s *sink) Write(p []byte) (int, error) {
	s.bytes.Add(int64(len(p)))
	return len(p), nil
}

func benchRequest(ctx context.Context, query url.Values, accept string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/api/v1/pods?"+query.Encode(), nil).WithContext(ctx)
	r.Header.Set("Accept", accept)
	return r
}

// watchers starts one WATCH per query and waits for the headers; stop ends them.
func (p *pods) watchers(accept string, queries []url.Values) (bytes *atomic.Int64, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	bytes = new(atomic.Int64)
	var running sync.WaitGroup
	for _, q := range queries {
		s := newSink()
		s.bytes, s.begun = bytes, make(chan struct{})
		q.Set("watch", "1")
		q.Set("resourceVersion", resourceversion.Format(p.rv))
		q.Set("timeoutSeconds", "3600")
		running.Go(func() { serveList(p.cache, s, benchRequest(ctx, q, accept), "", "") })
		<-s.begun
	}
	return bytes, func() {
		cancel()
		running.Wait()
	}
}

func BenchmarkList(b *testing.B) {
	p := newPods(b, 50_000)
	for _, bm := range []struct {
		name, accept, encoding string
		query                  url.Values
	}{
		{"protobuf", protobufPods, "", url.Values{}},
		{"protobuf gzip", protobufPods, "gzip", url.Values{}},
		{"metadata", podMetadata, "", url.Values{}},
		{"json", jsonPods, "", url.Values{}},
		{"label", protobufPods, "", url.Values{"labelSelector": {"app=" + p.sim.Apps()[7]}}},
		{"label json", jsonPods, "", url.Values{"labelSelector": {"app=" + p.sim.Apps()[7]}}},
		{"node", protobufPods, "", url.Values{"fieldSelector": {"spec.nodeName=" + p.sim.Nodes()[7]}}},
		{"namespace", protobufPods, "", url.Values{"fieldSelector": {"metadata.namespace=" + p.sim.Namespaces()[7]}}},
		{"watch", protobufPods, "", url.Values{"watch": {"1"}, "sendInitialEvents": {"true"}, "resourceVersionMatch": {"NotOlderThan"},
			"allowWatchBookmarks": {"true"}, "timeoutSeconds": {"3600"}}},
	} {
		b.Run(bm.name, func(b *testing.B) {
			bm.query.Set("resourceVersion", "0")
			list := func() int64 {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				s := &untilBookmark{sink: newSink(), cancel: cancel}
				r := benchRequest(ctx, bm.query, bm.accept)
				r.Header.Set("Accept-Encoding", bm.encoding)
				serveList(p.cache, s, r, "", "")
				return s.bytes.Load()
			}
			for i := 0; i < 10 && p.cache.selective(bm.query); i++ { // until there is an index
				list()
				for p.cache.indexes.busy() {
					runtime.Gosched()
				}
			}
			var bytes int64
			before := process.CPUTime()
			b.ReportAllocs()
			for b.Loop() {
				bytes = list()
			}
			b.ReportMetric(float64(process.CPUTime()-before)/float64(b.N)/1e6, "cpu-ms/op")
			b.ReportMetric(float64(bytes)/1e6, "MB/op")
		})
	}
}

func (c *Cache) selective(q url.Values) bool { return q.Has("labelSelector") || q.Has("fieldSelector") }

func (xs *indexes) busy() bool {
	xs.mu.Lock()
	defer xs.mu.Unlock()
	return xs.building
}

// untilBookmark is a client that ends its WATCH after the flush that follows the initial events.
type untilBookmark struct {
	*sink
	flushes int
	cancel  func()
}

func (u *untilBookmark) Flush() {
	if u.flushes++; u.flushes == 2 {
		u.cancel()
	}
}

// BenchmarkWatchers measures the cost of one change with 1,000 watchers of one node each, or with
// 100 watchers of all pods.
func BenchmarkWatchers(b *testing.B) {
	for _, bm := range []struct {
		name, accept string
		n            int
		query        func(p *pods, i int) url.Values
	}{
		{"none", protobufPods, 0, nil},
		{"1000 nodes", protobufPods, 1000, func(p *pods, i int) url.Values {
			return url.Values{"fieldSelector": {"spec.nodeName=" + p.sim.Nodes()[i]}}
		}},
		{"1000 labels", protobufPods, 1000, func(p *pods, i int) url.Values {
			return url.Values{"labelSelector": {"app=" + p.sim.Apps()[i%len(p.sim.Apps())]}}
		}},
		{"100 of all", protobufPods, 100, func(*pods, int) url.Values { return url.Values{} }},
		{"100 of all json", jsonPods, 100, func(*pods, int) url.Values { return url.Values{} }},
		{"100 running", protobufPods, 100, func(*pods, int) url.Values {
			return url.Values{"fieldSelector": {"status.phase!=Succeeded,status.phase!=Failed"}}
		}},
	} {
		b.Run(bm.name, func(b *testing.B) {
			p := newPods(b, 10_000)
			var queries []url.Values
			for i := range bm.n {
				queries = append(queries, bm.query(p, i))
			}
			runtime.GC()
			var m0, m1 runtime.MemStats
			runtime.ReadMemStats(&m0)
			bytes, stop := p.watchers(bm.accept, queries)
			p.settled()
			runtime.GC()
			runtime.ReadMemStats(&m1)
			bytes.Store(0)
			before := process.CPUTime()
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				p.touch(b)
				p.settled()
			}
			b.StopTimer()
			spent := process.CPUTime() - before
			stop()
			b.ReportMetric(float64(spent.Microseconds())/float64(b.N), "cpu-µs/change")
			b.ReportMetric(float64(bytes.Load())/float64(b.N), "B-sent/change")
			if bm.n > 0 {
				b.ReportMetric(float64(m1.HeapAlloc+m1.StackInuse-m0.HeapAlloc-m0.StackInuse)/float64(bm.n)/1e3, "kB/watcher")
			}
		})
	}
}

// settled waits until all watchers have received all changes.
func (p *pods) settled() {
	for p.cache.Stats().Lag > 0 {
		runtime.Gosched()
	}
}
