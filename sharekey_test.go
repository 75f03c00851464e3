package weir

import (
	"context"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// shares has a non-zero value of each option. shared is true if a user with this value shares the
// informer of a user with the zero value.
var shares = map[string]struct {
	options Options
	shared  bool
}{

	"Name":           {Options{Name: "other"}, true},
	"Resource":       {Options{Resource: schema.GroupVersionResource{Group: "g", Version: "v1", Resource: "pods"}}, false},
	"Scheme":         {Options{Scheme: schemeOfOtherPods()}, false},
	"Namespaces":     {Options{Namespaces: []string{"d"}}, false},
	"Selectors":      {Options{Selectors: []Selector{{Label: "a"}}}, false},
	"Shard":          {Options{Shard: Shard{Index: 1, Count: 2}}, false},
	"DropFields":     {Options{DropFields: []string{"status"}}, false},
	"Indexes":        {Options{Indexes: map[string]Index{"a": ByLabel("a")}}, true},
	"ShareDecoded":   {Options{ShareDecoded: true}, false},
	"PrivateCopies":  {Options{PrivateCopies: true}, true},
	"DetectMutation": {Options{DetectMutation: true}, false},
	"DecodedBudget":  {Options{DecodedBudget: 1}, false},
	"DecodedIdle":    {Options{DecodedIdle: time.Second}, false},
	"LogBytes":       {Options{LogBytes: 1}, false},
	"ListWatch":      {Options{ListWatch: ListWatch{Consistency: ConsistencyAny}}, false},
	"Server":         {Options{Server: &ServerGroup{}}, false},
	"OnStatus":       {Options{OnStatus: func(Status) {}}, true},
	"OnPanic":        {Options{OnPanic: func(*PanicError) {}}, true},
	"StopTimeout":    {Options{StopTimeout: time.Second}, false},
}

func schemeOfOtherPods() *runtime.Scheme {
	s := runtime.NewScheme()
	s.AddKnownTypeWithName(schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "Pod"}, &corev1.Pod{})
	return s
}

func acquired(t *testing.T, f *Factory, opts Options) *SharedInformer[*corev1.Pod] {
	t.Helper()
	l, err := Acquire[*corev1.Pod](f, opts)
	check.NoError(t, err)
	return l
}

// TestSharedOptions checks for each option whether two users share an informer. In one case both
// users set the option to the same value; in the other case only one user sets it.
func TestSharedOptions(t *testing.T) {
	f := NewFactory(t.Context(), unreachable())
	defer f.Shutdown()
	plain := acquired(t, f, Options{})
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Options]()) {
		c, ok := shares[field.Name]
		if !ok {
			t.Errorf("of %s it is not said whether users who differ in it share an informer", field.Name)
			continue
		}
		if reflect.ValueOf(c.options).FieldByIndex(field.Index).IsZero() {
			t.Fatalf("%s is not set", field.Name)
		}
		one, two := acquired(t, f, c.options), acquired(t, f, c.options)
		if one.shared != two.shared {
			t.Errorf("%s: two users of one value do not share an informer", field.Name)
		}
		check.Equal(t, one.shared == plain.shared, c.shared, "%s: shared with users of the zero value", field.Name)
	}
}

// TestSharedAlike checks that users whose options have the same meaning share an informer.
func TestSharedAlike(t *testing.T) {
	f := NewFactory(t.Context(), unreachable())
	defer f.Shutdown()
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	for name, c := range map[string]struct{ a, b Options }{
		"the resource":          {Options{}, Options{Resource: pods}},
		"a scheme":              {Options{}, Options{Scheme: schemeOfPods(t)}},
		"all namespaces":        {Options{}, Options{Namespaces: []string{""}}},
		"all objects":           {Options{}, Options{Selectors: []Selector{{}}}},
		"another order":         {Options{Namespaces: []string{"a", "b"}}, Options{Namespaces: []string{"b", "a"}}},
		"selectors":             {Options{Selectors: []Selector{{Label: "a"}, {Field: "b=c"}}}, Options{Selectors: []Selector{{Field: "b=c"}, {Label: "a"}}}},
		"fields":                {Options{DropFields: []string{"spec", "status"}}, Options{DropFields: []string{"status", "spec"}}},
		"sharing that is off":   {Options{}, Options{PrivateCopies: true, ShareDecoded: true}},
		"sharing while looking": {Options{DetectMutation: true}, Options{DetectMutation: true, ShareDecoded: true}},
		"the factory's server":  {Options{}, Options{Server: &f.server}},
	} {
		if acquired(t, f, c.a).shared != acquired(t, f, c.b).shared {
			t.Errorf("%s: not shared", name)
		}
	}
}

func schemeOfPods(t *testing.T) *runtime.Scheme {
	s := runtime.NewScheme()
	check.NoError(t, corev1.AddToScheme(s))
	return s
}

// TestSharedPrivateCopies checks that a user with PrivateCopies receives private objects: when it
// changes one, the other user of the informer does not see the change. The test lets either user
// acquire the informer first.
func TestSharedPrivateCopies(t *testing.T) {
	for name, order := range map[string][2]bool{"first": {true, false}, "second": {false, true}} {
		t.Run(name, func(t *testing.T) {
			f := NewFactory(t.Context(), unreachable())
			defer f.Shutdown()
			var private, plain *SharedInformer[*corev1.Pod]
			for _, copies := range order {
				l := acquired(t, f, Options{PrivateCopies: copies})
				if copies {
					private = l
				} else {
					plain = l
				}
			}
			handled := make(chan *corev1.Pod, 1)
			if _, err := private.Handle(func(_ context.Context, e Event[*corev1.Pod]) {
				p, _ := e.Object()
				p.Labels = map[string]string{"changed": "by the handler"}
				handled <- p
			}, HandlerOptions[*corev1.Pod]{}); err != nil {
				t.Fatal(err)
			}
			put(t, plain, "a")
			theirs, err := plain.Get("d/a")
			check.NoError(t, err)
			<-handled
			for way, get := range map[string]func() (*corev1.Pod, error){
				"Get":      func() (*corev1.Pod, error) { return private.Get("d/a") },
				"Item":     func() (*corev1.Pod, error) { i, _ := private.Item("d/a"); return i.Object() },
				"Snapshot": func() (*corev1.Pod, error) { return private.Snapshot().Get("d/a") },
				"All": func() (*corev1.Pod, error) {
					for p, err := range private.All() {
						return p, err
					}
					return nil, ErrNotFound
				},
			} {
				mine, err := get()
				check.NoError(t, err)
				mine.Labels = map[string]string{"changed": way}
				mine.Spec.Tolerations[0].Key = "changed"
				if mine == theirs {
					t.Errorf("%s returns a shared object", way)
				}
			}
			if again, err := plain.Get("d/a"); err != nil || again.Labels["changed"] != "" || again.Spec.Tolerations[0].Key == "changed" {
				t.Errorf("the other user sees %v, %v", again, err)
			}
		})
	}
}

// TestSharedCallbacks checks that each user receives the panics of its own handlers, and the
// informer's statuses until Release.
func TestSharedCallbacks(t *testing.T) {
	f := NewFactory(t.Context(), unreachable())
	defer f.Shutdown()
	type user struct {
		lease    *SharedInformer[*corev1.Pod]
		statuses chan Status
		panics   chan string
		told     atomic.Int64
	}
	users := []*user{{}, {}, {}}
	for _, u := range users {
		u.statuses, u.panics = make(chan Status, 1), make(chan string, 1)
		u.lease = acquired(t, f, Options{
			OnPanic: func(e *PanicError) { u.panics <- e.Value.(string) },
			OnStatus: func(s Status) {
				u.told.Add(1)
				select {
				case u.statuses <- s:
				default:
				}
			},
			ListWatch: ListWatch{Backoff: Backoff{Min: time.Millisecond, Max: time.Millisecond}},
		})
	}
	for name, u := range map[string]*user{"one": users[0], "two": users[1]} {
		if _, err := u.lease.Handle(func(context.Context, Event[*corev1.Pod]) { panic(name) }, HandlerOptions[*corev1.Pod]{}); err != nil {
			t.Fatal(err)
		}
	}
	put(t, users[0].lease, "a")
	for n, want := range []string{"one", "two"} {
		check.Equal(t, <-users[n].panics, want, "user %d received", n)
	}
	for n, u := range users {
		if s := <-u.statuses; s.Phase == PhaseStarting {
			t.Errorf("user %d: %v", n, s)
		}
	}
	gone := users[2]
	gone.lease.Release()
	told := func() int64 {
		// Wait for two more reports to all users. The first of them may have started before Release, the
		// second one starts after Release.
		for range 2 {
			<-users[0].statuses
			<-users[0].statuses
		}
		return gone.told.Load()
	}
	if before := told(); told() != before {
		t.Error("a user that has left is still told")
	}
}

// unreachable returns the config of a server that does not exist.
func unreachable() *rest.Config { return &rest.Config{Host: "http://127.0.0.1:1"} }

// TestSharedInformerForgetsHandlers checks that a shared informer does not keep each removed
// handler in memory until Release.
func TestSharedInformerForgetsHandlers(t *testing.T) {
	f := NewFactory(t.Context(), unreachable())
	defer f.Shutdown()
	l, err := Acquire[*corev1.Pod](f, Options{})
	check.NoError(t, err)
	for range 100 {
		r, err := l.Handle(func(context.Context, Event[*corev1.Pod]) {}, HandlerOptions[*corev1.Pod]{})
		check.NoError(t, err)
		r.Remove()
		<-r.Done()
	}
	if n := len(l.handlers); n > 4 {
		t.Errorf("%d handlers are kept", n)
	}
}

// TestAcquireWhileIndexIsBuilt checks that an Acquire of another informer does not wait while an
// Acquire adds an index. It also checks that an Acquire of the same informer then adds its own
// index.
func TestAcquireWhileIndexIsBuilt(t *testing.T) {
	f := NewFactory(t.Context(), unreachable())
	defer f.Shutdown()
	l, err := Acquire[*corev1.Pod](f, Options{})
	check.NoError(t, err)
	l.shared.indexing.Lock() // simulates an Acquire that adds an index
	other, err := Acquire[*corev1.Node](f, Options{})
	check.NoError(t, err)
	other.Release()
	second := make(chan error)
	go func() {
		_, err := Acquire[*corev1.Pod](f, Options{Indexes: map[string]Index{"node": ByField("spec.nodeName")}})
		second <- err
	}()
	l.shared.indexing.Unlock()
	check.NoError(t, <-second)
	if _, ok := l.shared.indexes["node"]; !ok {
		t.Error("the index was not added")
	}
}

// write passes a pod to do, which is a writer's Put or Delete.
func write(t *testing.T, do func(*wire.Meta, []byte) error, p *corev1.Pod) {
	t.Helper()
	raw, err := p.Marshal()
	check.NoError(t, err)
	var m wire.Meta
	check.NoError(t, wire.ReadMeta(wire.Protobuf, raw, &m))
	check.NoError(t, do(&m, raw))
}

func podOf(name, uid, resourceVersion string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, UID: types.UID(uid), ResourceVersion: resourceVersion, Labels: map[string]string{"a": name}},
		Spec:       corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists}}},
	}
}

// put stores a pod of this name in a shared informer.
func put(t *testing.T, l *SharedInformer[*corev1.Pod], name string) {
	t.Helper()
	w := l.informer.store.Writer(store.Scope{})
	write(t, w.Put, podOf(name, "u", "1"))
	w.Flush()
}
