package sim

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/testing/sim/api"
)

var modes = map[string]weir.Mode{"auto": weir.ModeAuto, "list": weir.ModeList, "pages": weir.ModePages, "watchlist": weir.ModeWatchList}

func (c ClientSpec) listWatch() weir.ListWatch {
	lw := weir.ListWatch{Mode: modes[c.Mode], PageSize: c.Page, WatchTimeout: c.Watch, MaxLists: c.Lists, Backoff: c.backoff}
	if c.Any {
		lw.Consistency = weir.ConsistencyAny
	}
	return lw
}

// native adapts the informer that weir.NewInformer returns.
type native[T weir.Object] struct {
	*weir.Informer[T]
	cluster *api.Cluster
	reads   bool // a handler with a resync period reads objects repeatedly
}

func newNative(c *api.Cluster, cl *api.Client, spec ClientSpec) (informer, error) {
	if spec.Partial {
		return makeNative[*metav1.PartialObjectMetadata](c, cl, spec)
	}
	if c.Kind.Protobuf {
		return makeNative[*corev1.ConfigMap](c, cl, spec)
	}
	return makeNative[*unstructured.Unstructured](c, cl, spec)
}

func makeNative[T weir.Object](c *api.Cluster, cl *api.Client, spec ClientSpec) (informer, error) {
	opts := weir.Options{
		Resource: c.Kind.GroupVersionResource, Namespaces: spec.Scope.Namespaces, LogBytes: spec.LogBytes,
		ListWatch: spec.listWatch(),
		Indexes:   map[string]weir.Index{"app": weir.ByLabel("app"), "node": weir.ByFunc(func(o T) ([]string, error) { return []string{nodeOf(o)}, nil })},
	}
	for _, s := range spec.Scope.Selectors {
		opts.Selectors = append(opts.Selectors, weir.Selector{Label: s})
	}
	var transport http.RoundTripper = cl
	if spec.Slow {
		transport = inPieces{cl}
	}
	inf, err := weir.NewInformer[T](&rest.Config{Host: "http://server", Transport: transport}, opts)
	if err != nil {
		return nil, err
	}
	return &native[T]{inf, c, spec.resync() > 0}, nil
}

// inPieces returns the bodies of responses a few bytes at a time. So a read may return one object
// and a part of the next one, and other goroutines can run before the informer applies the first
// object.
type inPieces struct{ http.RoundTripper }

func (t inPieces) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(req)
	if err == nil {
		resp.Body = pieces{resp.Body}
	}
	return resp, err
}

type pieces struct{ io.ReadCloser }

func (b pieces) Read(p []byte) (int, error) { return b.ReadCloser.Read(p[:min(len(p), 256)]) }

// nodeOf returns the object's value for the index "node", or "".
func nodeOf(o any) string {
	switch o := o.(type) {
	case *corev1.ConfigMap:
		return o.Data["node"]
	case *Widget:
		return o.Spec.Node
	case *metav1.PartialObjectMetadata:
		return o.Annotations[api.NodeAnnotation]
	case *unstructured.Unstructured:
		s, _, _ := unstructured.NestedString(o.Object, "spec", "node")
		return s
	}
	return ""
}

func (n *native[T]) Run(ctx context.Context) { _ = n.Informer.Run(ctx) }

func (n *native[T]) ResourceVersions() (all []string) {
	for _, s := range n.Status() {
		all = append(all, s.ResourceVersion)
	}
	return all
}

func (n *native[T]) Err() (error, bool) { return n.Informer.Err(), true }

func (n *native[T]) Handle(h *handler) (registration, error) {
	opts := weir.HandlerOptions[T]{Resync: h.spec.Resync}
	if h.spec.Filter != "" {
		opts.Filter = func(i weir.Item[T]) bool {
			app, _ := i.Label("app")
			return app == h.spec.Filter
		}
	}
	r, err := n.Informer.Handle(func(ctx context.Context, e weir.Event[T]) {
		out := event{key: api.ParseKey(e.Key()), initial: e.Initial}
		switch e.Type {
		case weir.Added:
			out.typ, out.new = added, n.object(e.Item())
		case weir.Updated:
			out.typ, out.old, out.new = updated, n.object(e.OldItem()), n.object(e.Item())
			if was := e.OldItem().UID(); was != e.Item().UID() {
				out.new.problem = "an update of uid " + was
			}
		case weir.Deleted:
			out.typ, out.old = deleted, n.object(e.Item())
		case weir.Resynced:
			out.typ, out.old, out.new = resynced, n.object(e.Item()), n.object(e.Item())
		}
		h.tell(ctx, out)
	}, opts)
	if err != nil {
		return nil, err
	}
	return nativeRegistration{r}, nil
}

type nativeRegistration struct{ *weir.Registration }

// object finds the representation of an item by its bytes. If the item differs from that
// representation, the result says how.
func (n *native[T]) object(i weir.Item[T]) object {
	if i.IsZero() {
		return object{problem: "no object"}
	}
	raw, err := i.AppendRaw(nil)
	if err != nil {
		return object{problem: err.Error()}
	}
	rep, ok := n.cluster.RepresentationOf(raw)
	if !ok && n.cluster.Plain() { // the server sent JSON, which the informer has converted
		v, err := i.Object()
		if err != nil {
			return object{problem: err.Error()}
		}
		return objectOf(n.cluster, v)
	}
	switch {
	case !ok:
		return object{problem: fmt.Sprintf("bytes that no server wrote: %q", raw)}
	case rep.Version.Key.String() != i.Key():
		return object{rep: rep, problem: "key " + i.Key()}
	case rep.ResourceVersion() != i.ResourceVersion():
		return object{rep: rep, problem: "resourceVersion " + i.ResourceVersion()}
	case rep.Version.UID != i.UID():
		return object{rep: rep, problem: "uid " + i.UID()}
	}
	return object{rep: rep}
}

func (n *native[T]) Read(_ bool, report func(string, ...any)) view {
	s := n.Snapshot()
	v := view{resourceVersion: s.ResourceVersion(), objects: map[api.Key]api.Representation{}}
	byApp, byNode := map[string][]string{}, map[string][]string{}
	for i := range s.Items() {
		o := n.object(i)
		if o.problem != "" {
			report("item %s of a snapshot: %s", i.Key(), o.problem)
			continue
		}
		v.objects[o.rep.Version.Key] = o.rep
		if app, ok := o.rep.Version.Labels["app"]; ok {
			byApp[app] = append(byApp[app], i.Key())
		}
		byNode[o.rep.Version.Node] = append(byNode[o.rep.Version.Node], i.Key())
	}
	n.checkIndex(s, "app", byApp, report)
	n.checkIndex(s, "node", byNode, report)
	return v
}

func (n *native[T]) checkIndex(s weir.Snapshot[T], name string, want map[string][]string, report func(string, ...any)) {
	for _, value := range []string{"x", "y", "z", "node-1", "node-2"} {
		var keys []string
		for i, err := range s.ItemsBy(name, value) {
			if err != nil {
				report("index %s: %v", name, err)
				return
			}
			keys = append(keys, i.Key())
		}
		if !slices.Equal(keys, want[value]) {
			report("index %s=%s has %v; by the snapshot's objects it is %v", name, value, keys, want[value])
		}
	}
}

func (n *native[T]) Rest(report func(string, ...any)) {
	st := n.Stats()
	for _, h := range st.Handlers {
		if h.Lag != 0 || h.Pending != 0 {
			report("handler %s: lag %d, %d keys pending", h.Name, h.Lag, h.Pending)
		}
	}
	m := st.Memory
	if n.reads {
		m.Decoded = 0
	}
	if m.Log > 3072 || m.Cursors > 64*int64(max(maxKeys, st.Objects)) || m.Decoded != 0 {
		report("memory: log %d, cursors %d, decoded %d bytes", m.Log, m.Cursors, m.Decoded)
	}
}
