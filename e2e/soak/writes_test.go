package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/weirproject/weir/internal/testing/testenv"
)

// readYourWrites is the prefix of the names of this file's subjects. The rest of a name says whose
// cache the subject uses: Weir's or client-go's.
const readYourWrites = "controller-runtime"

// ownWrites is a client with controller-runtime's read-your-writes. It checks that it reads what it
// has written. It reads from a cache on the bad line, which may be far behind, and writes over the
// steady line. Its reads therefore wait for the cache.
type ownWrites struct {
	name      string
	namespace string
	client    client.Client

	round    atomic.Int64 // number of rounds of reads and writes that succeeded
	step     atomic.Value // current step as a string, for the log
	problems chan string
}

// startOwnWrites starts a cache and a client. The client writes to the API servers, and reads from
// the cache.
func (w *world) startOwnWrites(ctx context.Context, way, whose string, newCache cache.NewCacheFunc) *subject {
	w.t.Helper()
	s, cfg := w.newSubject(readYourWrites+" "+whose, way, "configmaps")
	s.control = whose == clientGo
	c, err := newCache(cfg, cache.Options{Scheme: scheme.Scheme})
	w.fatal(err)
	stopCache := running(ctx, func(ctx context.Context) {
		if err := c.Start(ctx); err != nil {
			w.t.Errorf("%v: %v", s, err)
		}
	})
	inf, err := c.GetInformer(ctx, &corev1.ConfigMap{})
	w.fatal(err)
	h := s.newHistory(w, "")
	_, err = inf.AddEventHandler(h.handler())
	w.fatal(err)
	s.objects = func() map[string]version {
		if shared, ok := inf.(toolscache.SharedIndexInformer); ok {
			return heldBy(shared)
		}
		return nil
	}
	o := &ownWrites{name: s.String(), namespace: fmt.Sprintf("own-%s-%s", way, map[bool]string{true: "control", false: "ours"}[s.control]), problems: make(chan string, 100)}
	o.step.Store("nothing")
	steady := w.steadyConfig(s.String())
	o.client, err = client.New(steady, client.Options{Scheme: scheme.Scheme, Cache: &client.CacheOptions{Reader: c, EnableReadYourWritesConsistency: new(true)}})
	w.fatal(err)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.namespace}}
	if _, err := w.admin(0).CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		w.t.Fatal(err)
	}
	stop := running(ctx, o.run)
	s.stop = func() { stop(); stopCache() }
	since := o.round.Load()
	// The round in progress must end, and then a whole round must succeed.
	s.settle = func() { since = o.round.Load() + 1 }
	s.current = func() bool { return o.round.Load() > since }
	s.trouble = func() string { return "it is at: " + o.step.Load().(string) }
	s.problems = o.take
	return s
}

func (o *ownWrites) take() (out []string) {
	for {
		select {
		case p := <-o.problems:
			out = append(out, o.name+": "+p)
		default:
			return out
		}
	}
}

func (o *ownWrites) blame(format string, args ...any) {
	select {
	case o.problems <- fmt.Sprintf(format, args...):
	default: // enough problems are recorded
	}
}

func (o *ownWrites) run(ctx context.Context) {
	pause := time.NewTicker(50 * time.Millisecond)
	defer pause.Stop()
	for i := 0; ; i++ {
		if err := o.once(ctx, fmt.Sprintf("k%d", i%3), i); err == nil {
			o.round.Add(1)
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
	}
}

var errUnknown = errors.New("the write has failed, or its result is unknown")

// once creates or patches an object, reads it, deletes it, and LISTs. It records a problem if a
// read does not see the write before it.
func (o *ownWrites) once(ctx context.Context, name string, number int) error {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: o.namespace, Name: name, Labels: map[string]string{writeLabel: strconv.Itoa(number)},
	}}
	if err := o.write(ctx, "create", func(ctx context.Context) error {
		err := o.client.Create(ctx, cm)
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		return o.client.Patch(ctx, cm, client.RawPatch(mergePatch, fmt.Appendf(nil, `{"metadata":{"labels":{%q:"%d"}}}`, writeLabel, number)))
	}); err != nil {
		return err
	}
	o.step.Store(fmt.Sprintf("Get of %s at %s", name, cm.ResourceVersion))
	var got corev1.ConfigMap
	if err := o.client.Get(ctx, client.ObjectKeyFromObject(cm), &got); err != nil {
		if ctx.Err() == nil {
			o.blame("Get of %s, which was written at %s: %v", name, cm.ResourceVersion, err)
		}
		return err
	}
	if parseVersion(got.ResourceVersion) < parseVersion(cm.ResourceVersion) {
		o.blame("Get of %s gives %s, and %s was written", name, got.ResourceVersion, cm.ResourceVersion)
	}
	if err := o.write(ctx, "delete", func(ctx context.Context) error { return o.client.Delete(ctx, cm) }); err != nil {
		return err
	}
	o.step.Store("List after the deletion of " + name)
	var list corev1.ConfigMapList
	if err := o.client.List(ctx, &list, client.InNamespace(o.namespace)); err != nil {
		if ctx.Err() == nil {
			o.blame("List: %v", err)
		}
		return err
	}
	for i := range list.Items {
		if list.Items[i].UID == cm.UID {
			o.blame("List gives %s, which was deleted", name)
		}
	}
	o.step.Store("nothing")
	return nil
}

// write sends a write. It returns an error after writeTimeout, because a server may be paused.
func (o *ownWrites) write(ctx context.Context, what string, f func(ctx context.Context) error) error {
	o.step.Store(what)
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := f(ctx); err != nil {
		return errors.Join(errUnknown, err)
	}
	return nil
}

// widgets are custom resources whose definition changes: a schema, a default value, and whether
// version v1 is served. Informers read widgets in version v1. Writers use version v2, which is
// always served.
var (
	widgets        = schema.GroupVersionResource{Group: "soak.example.com", Version: "v1", Resource: "widgets"}
	writtenWidgets = widgets.GroupResource().WithVersion("v2")
	definitions    = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// definition has the parts of the CustomResourceDefinition that change.
type definition struct {
	served bool   // whether version v1 is served
	colour string // default value of spec.colour
	extra  bool   // whether the schema has spec.extra
}

// object returns the CustomResourceDefinition.
func (d definition) object() *unstructured.Unstructured {
	extra := ""
	if d.extra {
		extra = ", extra: {type: string}"
	}
	validation := fmt.Sprintf(`{openAPIV3Schema: {type: object, properties: {spec: {type: object, default: {}, properties: {
		colour: {type: string, default: %s}, size: {type: integer}%s}}}}}`, d.colour, extra)
	text := fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.soak.example.com}, spec: {
		group: soak.example.com, scope: Namespaced, names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList},
		versions: [{name: v1, served: %t, storage: false, schema: %s}, {name: v2, served: true, storage: true, schema: %s}]}}`,
		d.served, validation, validation)
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		panic(err) // the text is a constant of this test
	}
	return u
}

func randomDefinition(r *rand.Rand) definition {
	return definition{served: r.IntN(3) > 0, colour: []string{"red", "green", "blue"}[r.IntN(3)], extra: r.IntN(2) == 0}
}

// defineWidgets creates the definition, and waits until both API servers serve widgets.
func (w *world) defineWidgets(ctx context.Context) {
	w.t.Helper()
	d := definition{served: true, colour: "red"}
	if _, err := w.dynamic(w.servers[0].Config()).Resource(definitions).Create(ctx, d.object(), metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.widgetsServed(ctx)
}

// redefine replaces the spec of the definition. It retries on conflicts, and returns other errors.
func (w *world) redefine(ctx context.Context, client dynamic.Interface, d definition) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now, err := client.Resource(definitions).Get(ctx, "widgets.soak.example.com", metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.Object["spec"] = d.object().Object["spec"]
		_, err = client.Resource(definitions).Update(ctx, now, metav1.UpdateOptions{})
		return err
	})
}

// widgetsServed waits until both API servers serve widgets in version v1.
func (w *world) widgetsServed(ctx context.Context) {
	w.t.Helper()
	for i, s := range w.servers {
		client := w.dynamic(s.Config())
		testenv.EventuallyNoError(w.t, ctx, fmt.Sprintf("server %d serves widgets", i+1), func() error {
			_, err := client.Resource(widgets).List(ctx, metav1.ListOptions{})
			return err
		})
	}
}

const mergePatch = types.MergePatchType
