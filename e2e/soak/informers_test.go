package soak

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// pairNamespaces and pairSelectors are two namespaces and two selectors. The subjects named pairs
// watch all four combinations.
var (
	pairNamespaces = namespaces[:2]
	pairSelectors  = []string{"red=yes", "blue=yes"}
)

const protobuf = "application/vnd.kubernetes.protobuf"

// startInformers starts each kind of Weir's informers. way selects direct connections or the
// proxies.
func (w *world) startInformers(ctx context.Context, way string) (out []*subject) {
	out = append(out,
		startNative[*corev1.ConfigMap](w, ctx, way, "configmaps", weir.Options{}),
		startNative[*corev1.ConfigMap](w, ctx, way, pairs, weir.Options{
			Namespaces: pairNamespaces, Selectors: []weir.Selector{{Label: pairSelectors[0]}, {Label: pairSelectors[1]}},
		}),
		startNative[*unstructured.Unstructured](w, ctx, way, "widgets", weir.Options{Resource: widgets}),
	)
	s, cfg := w.newSubject("drop-in", way, "configmaps")
	typed := clientgo.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(cfg), 0)
	s.start(w, typed.Core().V1().ConfigMaps().Informer(), func() func() {
		ctx, cancel := context.WithCancel(ctx)
		typed.StartWithContext(ctx)
		return func() { cancel(); typed.Shutdown() }
	})
	out = append(out, s)
	s, cfg = w.newSubject("drop-in", way, "widgets")
	custom := clientgo.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(cfg), 0)
	s.start(w, custom.ForResource(widgets).Informer(), func() func() {
		ctx, cancel := context.WithCancel(ctx)
		custom.Start(ctx.Done())
		return func() { cancel(); custom.Shutdown() }
	})
	return append(out, s)
}

// startControls starts client-go's informers. way selects direct connections or the proxies.
func (w *world) startControls(ctx context.Context, way string) (out []*subject) {
	s, cfg := w.newSubject(clientGo, way, "configmaps")
	factory := informers.NewSharedInformerFactory(w.client(cfg), 0)
	s.start(w, factory.Core().V1().ConfigMaps().Informer(), startFactory(ctx, factory))
	out = append(out, s)

	s, cfg = w.newSubject(clientGo, way, pairs)
	var parts []cache.SharedIndexInformer
	var stops []func()
	for _, ns := range pairNamespaces {
		for _, selector := range pairSelectors {
			factory := informers.NewSharedInformerFactoryWithOptions(w.client(cfg), 0, informers.WithNamespace(ns),
				informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = selector }))
			inf := factory.Core().V1().ConfigMaps().Informer()
			w.handle(inf, s.newHistory(w, " "+ns+" "+selector))
			parts = append(parts, inf)
			stops = append(stops, startFactory(ctx, factory)())
		}
	}
	s.objects = func() map[string]version { return heldBy(parts...) }
	s.stop = func() {
		for _, stop := range stops {
			stop()
		}
	}
	out = append(out, s)

	s, cfg = w.newSubject(clientGo, way, "widgets")
	custom := dynamicinformer.NewDynamicSharedInformerFactory(w.dynamic(cfg), 0)
	s.start(w, custom.ForResource(widgets).Informer(), func() func() {
		ctx, cancel := context.WithCancel(ctx)
		custom.Start(ctx.Done())
		return func() { cancel(); custom.Shutdown() }
	})
	out = append(out, s)
	for _, s := range out {
		s.control = true
	}
	return out
}

const (
	clientGo = "client-go"
	pairs    = "configmaps 2x2"
)

func startFactory(ctx context.Context, factory informers.SharedInformerFactory) func() (stop func()) {
	return func() func() {
		ctx, cancel := context.WithCancel(ctx)
		factory.StartWithContext(ctx)
		return func() { cancel(); factory.Shutdown() }
	}
}

func (w *world) client(cfg *rest.Config) kubernetes.Interface {
	w.t.Helper()
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType = protobuf
	client, err := kubernetes.NewForConfig(cfg)
	w.fatal(err)
	return client
}

func (w *world) fatal(err error) {
	w.t.Helper()
	check.NoError(w.t, err)
}

// handle adds a handler to an informer with client-go's interface. h checks the handler's calls.
func (w *world) handle(inf cache.SharedIndexInformer, h *history) {
	w.t.Helper()
	_, err := inf.AddEventHandler(h.handler())
	w.fatal(err)
}

// start starts a subject that consists of one informer with client-go's interface.
func (s *subject) start(w *world, inf cache.SharedIndexInformer, start func() (stop func())) {
	w.t.Helper()
	w.handle(inf, s.newHistory(w, ""))
	s.objects = func() map[string]version { return heldBy(inf) }
	s.content = func(key string) (any, error) {
		o, _, err := inf.GetStore().GetByKey(key)
		return o, err
	}
	if s.name != clientGo {
		s.trouble = func() string { return fmt.Sprint(clientgo.Err(inf)) }
	}
	s.stop = start()
}

// heldBy returns the objects in the stores of informers. If they store different versions of an
// object, it returns the newest.
func heldBy(informers ...cache.SharedIndexInformer) map[string]version {
	out := map[string]version{}
	for _, inf := range informers {
		for _, o := range inf.GetStore().List() {
			key := keyOf(o)
			if v := versionOf(metaOf(o)); compared(key) && v.rv >= out[key].rv {
				out[key] = v
			}
		}
	}
	return out
}

// startNative starts a subject that consists of one typed informer.
func startNative[T weir.Object](w *world, ctx context.Context, way, of string, opts weir.Options) *subject {
	w.t.Helper()
	s, cfg := w.newSubject("native", way, of)
	inf, err := weir.NewInformer[T](cfg, opts)
	w.fatal(err)
	h := s.newHistory(w, "")
	_, err = inf.Handle(func(_ context.Context, e weir.Event[T]) {
		switch e.Type {
		case weir.Added:
			h.added(e.Key(), itemVersion(e.Item()))
		case weir.Updated:
			h.updated(e.Key(), itemVersion(e.OldItem()), itemVersion(e.Item()))
		case weir.Deleted:
			h.deleted(e.Key(), itemVersion(e.Item()))
		}
	}, weir.HandlerOptions[T]{})
	w.fatal(err)
	s.objects = func() map[string]version {
		out := map[string]version{}
		for i := range inf.Snapshot().Items() {
			if compared(i.Key()) {
				out[i.Key()] = itemVersion(i)
			}
		}
		return out
	}
	s.content = func(key string) (any, error) { return inf.Get(key) }
	s.trouble = func() string { return fmt.Sprintf("%v %v", inf.Err(), inf.Status()) }
	s.stop = running(ctx, func(ctx context.Context) {
		if err := inf.Run(ctx); err != nil {
			w.t.Errorf("%v: %v", s, err)
		}
	})
	return s
}

func itemVersion[T weir.Object](i weir.Item[T]) version {
	write, _ := i.Label(writeLabel)
	return version{uid: i.UID(), rv: parseVersion(i.ResourceVersion()), write: write}
}

// tap records the versions in the responses to the requests of a subject (an informer under test).
// It stores the versions by key, for the log. It is safe for concurrent use.
type tap struct {
	begun time.Time

	mu        sync.Mutex
	keys      map[string][]string
	bookmarks []string
}

const (
	// maxTapped bounds the stored versions of a key.
	maxTapped = 40
	// maxBookmarks bounds the stored bookmarks.
	maxBookmarks = 40
)

func newTap(begun time.Time) *tap { return &tap{begun: begun, keys: map[string][]string{}} }

// listen returns a body with the bytes of resp's body. It records the versions in these bytes. A
// goroutine parses them until the body ends or is closed. number is the number of the request.
func (t *tap) listen(number int64, resp *http.Response, watch bool) io.ReadCloser {
	pr, pw := io.Pipe()
	enc := wire.JSON
	if strings.Contains(resp.Header.Get("Content-Type"), "protobuf") {
		enc = wire.Protobuf
	}
	encoding := resp.Header.Get("Content-Encoding")
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _, _ = io.Copy(io.Discard, pr) }() // read the bytes that the parser has not read
		body, err := wire.NewBody(pr, encoding)
		switch {
		case err != nil:
		case watch:
			t.watch(number, body, enc)
		default:
			t.list(number, body, enc)
		}
	}()
	return &tapped{resp.Body, pw, done}
}

// tapped is a response body. It also sends to the tap each byte that its caller reads.
type tapped struct {
	io.ReadCloser
	along *io.PipeWriter
	done  <-chan struct{}
}

func (b *tapped) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		_, _ = b.along.Write(p[:n])
	}
	if err != nil {
		_ = b.along.CloseWithError(err)
	}
	return n, err
}

func (b *tapped) Close() error {
	_ = b.along.CloseWithError(io.EOF)
	<-b.done
	return b.ReadCloser.Close()
}

func (t *tap) watch(number int64, body io.Reader, enc wire.Encoding) {
	events := wire.NewWatchReader(body, enc, wire.Limits{})
	for newest := uint64(0); ; {
		event, err := events.Next()
		if err != nil {
			return
		}
		var m wire.Meta
		if event.Type == wire.Error || wire.ReadMeta(enc, event.Object, &m) != nil {
			continue
		}
		t.note(fmt.Sprintf("#%d %v", number, event.Type), &m, newest)
		newest = max(newest, parseVersion(string(m.ResourceVersion)))
	}
}

func (t *tap) list(number int64, body io.Reader, enc wire.Encoding) {
	for list := wire.NewListReader(body, enc, wire.Limits{}); ; {
		object, err := list.Next()
		if err != nil {
			return
		}
		var m wire.Meta
		if wire.ReadMeta(enc, object, &m) == nil {
			t.note(fmt.Sprintf("#%d listed", number), &m, 0)
		}
	}
}

// note records one object of a response. newest is the newest resourceVersion that the response
// contained before this object.
func (t *tap) note(how string, m *wire.Meta, newest uint64) {
	line := fmt.Sprintf("%8.3fs  %s %s (uid %.4s), after %d", time.Since(t.begun).Seconds(), how, m.ResourceVersion, m.UID, newest)
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(m.Name) == 0 {
		t.bookmarks = append(t.bookmarks, line)
		t.bookmarks = t.bookmarks[max(0, len(t.bookmarks)-maxBookmarks):]
		return
	}
	key := string(wire.AppendKey(nil, m))
	lines := append(t.keys[key], line)
	t.keys[key] = lines[max(0, len(lines)-maxTapped):]
}

// told returns the recorded versions of a key, and the recorded bookmarks.
func (t *tap) told(key string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return "it was told\n    " + strings.Join(t.keys[key], "\n    ") + "\n  and the bookmarks\n    " + strings.Join(t.bookmarks, "\n    ")
}
