package clientgo

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/testing/check"
)

// oddProgram is a program whose functions panic or return invalid results. Its server has the pods
// a and b, and adds pod z after the first list.
type oddProgram struct {
	example runtime.Object // nil means a pod
	// first is the result of the first List; nil means the pods a and b. later is the result of each
	// later List; nil means the pods a, b and z.
	first, later func() (runtime.Object, error)
	watch        func() (watch.Interface, error) // the first Watch; nil returns events and pod z
	events       []watch.Event
	set          func(inf cache.SharedIndexInformer) error
	handler      cache.ResourceEventHandler
	// want states whether the informer has synced after two minutes, and which keys it stores.
	// clientGo states this for client-go's informer; "" means that it equals want.
	want, clientGo string
}

// oddMap is an object that cannot be the key of a map.
type oddMap map[string]string

func (oddMap) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (m oddMap) DeepCopyObject() runtime.Object { return m }
func (m oddMap) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: "d", Name: m["name"], ResourceVersion: "1"}
}

type brokenWatch struct{ watch.Interface }

// transformA returns a function that sets a transform. The transform calls f for pod a and does not
// change other pods.
func transformA(f func(p *corev1.Pod) (any, error)) func(cache.SharedIndexInformer) error {
	return func(inf cache.SharedIndexInformer) error {
		return inf.SetTransform(func(obj any) (any, error) {
			if p, ok := obj.(*corev1.Pod); ok && p.Name == "a" {
				return f(p)
			}
			return obj, nil
		})
	}
}

func indexedBy(f cache.IndexFunc) func(cache.SharedIndexInformer) error {
	return func(inf cache.SharedIndexInformer) error { return inf.AddIndexers(cache.Indexers{"odd": f}) }
}

func returnsList(list runtime.Object) func() (runtime.Object, error) {
	return func() (runtime.Object, error) { return list, nil }
}

func returnsWatch(w watch.Interface) func() (watch.Interface, error) {
	return func() (watch.Interface, error) { return w, nil }
}

func podsAt(version string, names ...string) *corev1.PodList {
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: version}}
	for i, name := range names {
		p := pod(name, "1")
		p.UID, p.ResourceVersion = "", strconv.Itoa(8+i)
		list.Items = append(list.Items, *p)
	}
	return list
}

func table(apiVersion string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": "Table", "metadata": map[string]any{"name": "t", "namespace": "d", "resourceVersion": "7"},
	}}
}

var secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "s", ResourceVersion: "7"}}

var expired = []watch.Event{{Type: watch.Error, Object: statusOf(apierrors.NewResourceExpired("too old"))}}

var oddPrograms = map[string]oddProgram{
	"a transform returns nil":           {set: transformA(func(*corev1.Pod) (any, error) { return nil, nil }), want: "synced b z", clientGo: "synced z"},
	"a transform returns a nil pointer": {set: transformA(func(*corev1.Pod) (any, error) { return (*corev1.Pod)(nil), nil }), want: "synced b z", clientGo: "synced z"},
	"a transform returns a nil pointer of another type": {
		set: transformA(func(*corev1.Pod) (any, error) { return (*slimPod)(nil), nil }), want: "synced b z", clientGo: "synced z",
	},
	"a transform returns a string": {set: transformA(func(*corev1.Pod) (any, error) { return "a", nil }), want: "synced b z", clientGo: "synced z"},
	"a transform returns a list":   {set: transformA(func(*corev1.Pod) (any, error) { return &corev1.PodList{}, nil }), want: "synced b z", clientGo: "synced z"},
	"a transform returns a map":    {set: transformA(func(p *corev1.Pod) (any, error) { return oddMap{"name": p.Name}, nil }), want: "synced a b z"},
	"a transform returns an error": {set: transformA(func(*corev1.Pod) (any, error) { return nil, errors.New("no") }), want: "not synced"},
	"a transform panics":           {set: transformA(func(*corev1.Pod) (any, error) { panic("no") }), want: "not synced"},
	"an index function panics":     {set: indexedBy(func(any) ([]string, error) { panic("no") }), want: "synced a b z"},
	"an index function fails":      {set: indexedBy(func(any) ([]string, error) { return nil, errors.New("no") }), want: "synced a b z"},
	"an index function is nil":     {set: indexedBy(nil), want: "synced a b z"},
	"a filter panics": {
		handler: cache.FilteringResourceEventHandler{FilterFunc: func(any) bool { panic("no") }, Handler: cache.ResourceEventHandlerFuncs{}}, want: "synced a b z",
	},
	"a filter is nil": {handler: cache.FilteringResourceEventHandler{Handler: cache.ResourceEventHandlerFuncs{}}, want: "synced a b z"},
	"a filter's handler is nil": {
		handler: cache.FilteringResourceEventHandler{FilterFunc: func(any) bool { return true }}, want: "synced a b z",
	},
	"List returns nil":           {first: returnsList(nil), want: "synced a b z"},
	"List returns a nil pointer": {first: returnsList((*corev1.PodList)(nil)), want: "synced a b z"},
	"List returns a pod":         {first: returnsList(pod("a", "1")), want: "synced a b z"},
	"List panics":                {first: func() (runtime.Object, error) { panic("no") }, want: "synced a b z"},
	"a watch error handler panics": {
		first: func() (runtime.Object, error) { return nil, errors.New("no") },
		set: func(inf cache.SharedIndexInformer) error {
			return inf.SetWatchErrorHandler(func(*cache.Reflector, error) { panic("no") })
		}, want: "synced a b z",
	},
	"List returns a table": {
		first: returnsList(&unstructured.UnstructuredList{Object: table("meta.k8s.io/v1").Object}), want: "synced a b z",
	},
	"List returns an item that is nil": {
		first: returnsList(&metav1.List{Items: []runtime.RawExtension{{Object: nil}}}), want: "synced z",
	},
	"List returns an item that is a nil pointer": {
		first: returnsList(&metav1.List{Items: []runtime.RawExtension{{Object: (*corev1.Pod)(nil)}}}), want: "synced z",
	},
	"List returns nil later":           {later: returnsList(nil), events: expired, want: "synced a b"},
	"List returns a nil pointer later": {later: returnsList((*corev1.PodList)(nil)), events: expired, want: "synced a b"},
	"Watch returns nil":                {watch: returnsWatch(nil), want: "synced a b z"},
	"Watch returns a nil pointer":      {watch: returnsWatch((*watch.FakeWatcher)(nil)), want: "synced a b z"},
	"a watch panics":                   {watch: returnsWatch(brokenWatch{}), want: "synced a b z"},
	"Watch panics":                     {watch: func() (watch.Interface, error) { panic("no") }, want: "synced a b z"},
	"an event has no object":           {events: []watch.Event{{Type: watch.Added}}, want: "synced a b z"},
	"an event has a nil pointer":       {events: []watch.Event{{Type: watch.Added, Object: (*corev1.Pod)(nil)}}, want: "synced a b z"},
	"a bookmark has a nil pointer":     {events: []watch.Event{{Type: watch.Bookmark, Object: (*corev1.Pod)(nil)}}, want: "synced a b z"},
	"an event has another type":        {events: []watch.Event{{Type: watch.Added, Object: secret}}, want: "synced a b z"},
	"a deletion has another type": {
		events: []watch.Event{{Type: watch.Deleted, Object: &corev1.Secret{ObjectMeta: podsAt("", "a").Items[0].ObjectMeta}}}, want: "synced a b z",
	},
	"an event has an unknown type": {events: []watch.Event{{Type: "CHANGED", Object: pod("b", "1")}}, want: "synced a b z"},
	"an error has no object":       {events: []watch.Event{{Type: watch.Error}}, want: "synced a b z"},
	"an error has a nil pointer":   {events: []watch.Event{{Type: watch.Error, Object: (*metav1.Status)(nil)}}, want: "synced a b z"},
	"an error has a nil map":       {events: []watch.Event{{Type: watch.Error, Object: (*unstructured.Unstructured)(nil)}}, want: "synced a b z"},
	"an error is a pod":            {events: []watch.Event{{Type: watch.Error, Object: pod("b", "1")}}, want: "synced a b z"},
}

// TestOddResults runs programs whose functions panic, or return nil or invalid results, with
// client-go's informer and with Weir's. utilruntime.ReallyCrash is false. Neither informer may end
// the process, and each must store the expected objects.
func TestOddResults(t *testing.T) {
	survive(t)
	silent(t)
	for name, program := range oddPrograms {
		for maker, make := range bothConstructors {
			t.Run(strings.ReplaceAll(name, " ", "_")+"/"+maker, func(t *testing.T) {
				want := program.want
				if maker == "client-go" && program.clientGo != "" {
					want = program.clientGo
				}
				synctest.Test(t, func(t *testing.T) {
					check.Equal(t, program.run(t, make), want)
				})
			})
		}
	}
}

// run runs an informer for two minutes, and returns whether it has synced and the stored keys.
func (p *oddProgram) run(t *testing.T, make constructor) string {
	lists, watches := 0, 0
	lw := plainListerWatcher{
		list: func(o metav1.ListOptions) (runtime.Object, error) {
			if o.Limit == 1 {
				return podsAt("10"), nil // a probe
			}
			lists++
			switch {
			case lists == 1 && p.first != nil:
				return p.first()
			case lists == 1:
				return podsAt("8", "a", "b"), nil
			case p.later != nil:
				return p.later()
			}
			return podsAt("10", "a", "b", "z"), nil
		},
		watch: func(o metav1.ListOptions) (watch.Interface, error) {
			if watches++; watches == 1 && p.watch != nil {
				return p.watch()
			}
			w := watch.NewFakeWithChanSize(len(p.events)+1, false)
			if watches == 1 {
				for _, e := range p.events {
					w.Action(e.Type, e.Object)
				}
			}
			if o.ResourceVersion != "10" {
				w.Add(&podsAt("", "a", "b", "z").Items[2])
			}
			return w, nil
		},
	}
	example := p.example
	if example == nil {
		example = &corev1.Pod{}
	}
	inf := make(lw, example, 0, cache.Indexers{})
	if p.set != nil {
		if err := p.set(inf); err != nil {
			return err.Error()
		}
	}
	if p.handler != nil {
		if _, err := inf.AddEventHandler(p.handler); err != nil {
			return err.Error()
		}
	}
	stop := run(t, inf)
	time.Sleep(2 * time.Minute)
	got := "not synced"
	if inf.HasSynced() {
		got = "synced"
	}
	for _, key := range slices.Sorted(slices.Values(inf.GetStore().ListKeys())) {
		got += " " + strings.TrimPrefix(key, "d/")
	}
	stop()
	return got
}

// panicsAtA returns a handler that records added objects in to, and panics after it has recorded
// object a.
func panicsAtA(to *recorder) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		to.OnAdd(obj, false)
		if obj.(*corev1.Pod).Name == "a" {
			panic("a is too much")
		}
	}}
}

// crashing is an environment variable that TestPanicEndsProcess sets for its child process. It
// names the constructor of the informer whose handler panics there.
const crashing = "WEIR_TEST_CRASHING"

// TestPanicEndsProcess checks in a child process that a panic of a handler ends the process, as
// with client-go. The log must contain the function that panicked.
func TestPanicEndsProcess(t *testing.T) {
	if make := bothConstructors[os.Getenv(crashing)]; make != nil {
		s := newRecordedInformer(t, make)
		panicking := newRecorder()
		register(t, s.informer, panicsAtA(panicking))
		s.source.Add(pod("a", "1"))
		s.start(t)
		s.source.Add(pod("b", "1"))
		panicking.wait(t, "add d/b@2 v=1") // never: the process has ended
		return
	}
	for maker := range bothConstructors {
		t.Run(maker, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPanicEndsProcess$")
			cmd.Env = append(os.Environ(), crashing+"="+maker)
			out, err := cmd.CombinedOutput()
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
				t.Errorf("ends with %v", err)
			}
			logged, crashed, _ := strings.Cut(string(out), "\npanic: a is too much")
			if !strings.Contains(logged, "Observed a panic") || !strings.Contains(logged, ".panicsAtA") || crashed == "" {
				t.Errorf("says %s", out)
			}
		})
	}
}
