package informertest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/informertest"
	"github.com/weirproject/weir/internal/core/resourceversion"
)

// handled is an informer that replaces each handler by the result of change before it registers the
// handler.
type handled struct {
	informertest.Informer
	change func(informertest.Handler) informertest.Handler
}

func handlers(change func(informertest.Handler) informertest.Handler) func(informertest.Informer) informertest.Informer {
	return func(inf informertest.Informer) informertest.Informer { return handled{inf, change} }
}

func (h handled) Handle(handler informertest.Handler, o informertest.HandlerOptions) (informertest.Registration, error) {
	return h.Informer.Handle(h.change(handler), o)
}

// misplaced returns a copy of p that is on another node.
func misplaced(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	p.Spec.NodeName += "-2"
	return p
}

func misplacesDeleted(h informertest.Handler) informertest.Handler {
	deleted := h.Deleted
	h.Deleted = func(p *corev1.Pod) { deleted(misplaced(p)) }
	return h
}

// idleSync is an informer whose handlers report a sync only after a second without a call. So they
// never sync while changes continue.
type idleSync struct{ informertest.Informer }

func (i idleSync) Handle(h informertest.Handler, o informertest.HandlerOptions) (informertest.Registration, error) {
	idle := &idleRegistration{last: time.Now()}
	updated := h.Updated
	h.Updated = func(old, p *corev1.Pod) { idle.touch(); updated(old, p) }
	var err error
	idle.Registration, err = i.Informer.Handle(h, o)
	return idle, err
}

type idleRegistration struct {
	informertest.Registration
	mu   sync.Mutex
	last time.Time
}

func (r *idleRegistration) touch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = time.Now()
}

func (r *idleRegistration) HasSynced() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.last) > time.Second && r.Registration.HasSynced()
}

func inTurn(h informertest.Handler, turn chan struct{}) informertest.Handler {
	take := func(call func()) {
		turn <- struct{}{}
		defer func() { <-turn }()
		call()
	}
	return informertest.Handler{
		Added:   func(p *corev1.Pod, initial bool) { take(func() { h.Added(p, initial) }) },
		Updated: func(old, p *corev1.Pod) { take(func() { h.Updated(old, p) }) },
		Deleted: func(p *corev1.Pod) { take(func() { h.Deleted(p) }) },
	}
}

func keepAll(inf informertest.Informer) informertest.Informer {
	var mu sync.Mutex
	var kept []*corev1.Pod
	keep := func(p *corev1.Pod) {
		mu.Lock()
		defer mu.Unlock()
		kept = append(kept, p)
	}
	both := handlers(func(h informertest.Handler) informertest.Handler {
		return informertest.Handler{
			Added:   func(p *corev1.Pod, initial bool) { keep(p); h.Added(p, initial) },
			Updated: func(old, p *corev1.Pod) { keep(p); h.Updated(old, p) },
			Deleted: h.Deleted,
		}
	})(inf)
	// This extra handler receives the objects even while the story's handler is blocked.
	_, err := inf.Handle(informertest.Handler{Updated: func(_, p *corev1.Pod) { keep(p) }}, informertest.HandlerOptions{})
	if err != nil {
		panic(err)
	}
	return both
}

type hasty struct{ informertest.Informer }

func (hasty) HasSynced() bool { return true }

func (h hasty) Handle(handler informertest.Handler, o informertest.HandlerOptions) (informertest.Registration, error) {
	r, err := h.Informer.Handle(handler, o)
	return hastyRegistration{r}, err
}

type hastyRegistration struct{ informertest.Registration }

func (hastyRegistration) HasSynced() bool { return true }

type empty struct{ informertest.Informer }

func (empty) ResourceVersions() map[string]string { return nil }
func (empty) Get(string) (*corev1.Pod, bool)      { return nil, false }

type indexless struct{ informertest.Informer }

func (indexless) AddIndex(string, informertest.IndexFunc) error     { return nil }
func (indexless) ByIndex(string, string) (keys []string, err error) { return nil, nil }

type clinging struct{ informertest.Informer }

func (c clinging) Handle(handler informertest.Handler, o informertest.HandlerOptions) (informertest.Registration, error) {
	r, err := c.Informer.Handle(handler, o)
	if err != nil {
		return nil, nil
	}
	return clingingRegistration{r}, nil
}

type clingingRegistration struct{ informertest.Registration }

func (clingingRegistration) Remove() error { return nil }

type lingering struct{ informertest.Informer }

func (l lingering) Run(ctx context.Context) {
	l.Informer.Run(ctx)
	time.Sleep(20 * time.Second)
}

type deaf struct{ informertest.Informer }

func (d deaf) Run(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Minute)
	defer cancel()
	d.Informer.Run(ctx)
}

type forgetful struct{ informertest.Informer }

func (f forgetful) Handle(h informertest.Handler, o informertest.HandlerOptions) (informertest.Registration, error) {
	if added, late := h.Added, f.HasSynced(); late {
		h.Added = func(p *corev1.Pod, initial bool) {
			if !initial {
				added(p, initial)
			}
		}
	}
	return f.Informer.Handle(h, o)
}

var errTimeout = errors.New("timeout")

type silent struct{ informertest.Informer }

func (silent) Err() error { return nil }

func (s silent) WaitForSync(ctx context.Context) error {
	if s.Informer.WaitForSync(ctx) != nil {
		return errTimeout
	}
	return nil
}

type fragile struct{ informertest.Informer }

func (f fragile) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			if f.Err() != nil {
				cancel()
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	f.Informer.Run(ctx)
	cancel()
	watching.Wait()
}

// transformsFirst makes a transform change only the objects of its first calls.
func transformsFirst(calls int32) func(*informertest.Options) {
	return func(o *informertest.Options) {
		transform, n := o.Transform, new(atomic.Int32)
		o.Transform = func(p *corev1.Pod) {
			if n.Add(1) <= calls {
				transform(p)
			}
		}
	}
}

// transformsNewer makes a transform change only versions that are newer than all previous ones.
func transformsNewer(o *informertest.Options) {
	transform := o.Transform
	var mu sync.Mutex
	var newest uint64
	o.Transform = func(p *corev1.Pod) {
		mu.Lock()
		defer mu.Unlock()
		if rv := resourceversion.Number(p.ResourceVersion); rv > newest {
			newest = rv
			transform(p)
		}
	}
}

type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func roundTrips(make func(next http.RoundTripper) trip) func(*rest.Config) {
	return func(cfg *rest.Config) { cfg.Transport = make(cfg.Transport) }
}

func hundredfold(next http.RoundTripper) trip {
	return func(r *http.Request) (*http.Response, error) {
		for range 99 {
			ctx, cancel := context.WithTimeout(r.Context(), time.Millisecond)
			if resp, err := next.RoundTrip(r.Clone(ctx)); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body) // only the requests matter, not their content
				_ = resp.Body.Close()
			}
			cancel()
		}
		return next.RoundTrip(r)
	}
}

func fromNow(next http.RoundTripper) trip {
	return func(r *http.Request) (*http.Response, error) {
		q := r.URL.Query()
		if q.Get("watch") != "" {
			r = r.Clone(r.Context())
			q.Set("resourceVersion", "1")
			r.URL.RawQuery = q.Encode()
		}
		return next.RoundTrip(r)
	}
}

func once(next http.RoundTripper) trip {
	var mu sync.Mutex
	var lists int
	return func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/pods") {
			mu.Lock()
			lists++
			n := lists
			mu.Unlock()
			if n > 1 {
				return nil, errTimeout
			}
		}
		return next.RoundTrip(r)
	}
}

// firstNamespace replaces the namespace of every request by the namespace of the first request.
func firstNamespace(next http.RoundTripper) trip {
	var mu sync.Mutex
	first := ""
	return func(r *http.Request) (*http.Response, error) {
		mu.Lock()
		if strings.HasPrefix(r.URL.Path, "/api/v1/namespaces/") {
			if first == "" {
				first = r.URL.Path
			}
			r = r.Clone(r.Context())
			r.URL.Path = first
		}
		mu.Unlock()
		return next.RoundTrip(r)
	}
}

func emptied(next http.RoundTripper) trip {
	var nothing bytes.Buffer
	list := &corev1.PodList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "1500"},
	}
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(list, &nothing); err != nil {
		panic(err)
	}
	return func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if r.URL.Query().Get("watch") != "" || !strings.HasSuffix(r.URL.Path, "/pods") {
			return resp, err
		}
		if err == nil {
			body, broken := io.ReadAll(resp.Body)
			_ = resp.Body.Close() // ReadAll has read until the end of the body or an error
			if broken == nil && resp.StatusCode == http.StatusOK {
				resp.Body = io.NopCloser(bytes.NewReader(body))
				return resp, nil
			}
		}
		return &http.Response{
			StatusCode: http.StatusOK,
			Header:     http.Header{"Content-Type": {runtime.ContentTypeProtobuf}},
			Body:       io.NopCloser(bytes.NewReader(nothing.Bytes())),
			Request:    r,
		}, nil
	}
}
