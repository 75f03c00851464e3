package clientgo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// These are the phases of an informer in which TestMethods calls methods.
const (
	beforeStart  = "before its start"
	whileRunning = "while it runs"
	afterEnd     = "after its end"
)

var phases = []string{beforeStart, whileRunning, afterEnd}

// method is a call of a method. Its result must be the same as with client-go in each phase.
type method struct {
	name string // the method of the interface, and the arguments
	call func(t *testing.T, s *recordedInformer) string
	// differs contains, by phase, results that differ from client-go's on purpose. Either
	// docs/reference/differences.md lists the difference, or only an error text differs.
	differs map[string]string
}

// outcome formats the results of a method as text.
func outcome(results ...any) string {
	var out []string
	for _, r := range results {
		switch r := r.(type) {
		case []any:
			out = append(out, "["+strings.ReplaceAll(shown(r), "\n", ", ")+"]")
		case []string:
			out = append(out, fmt.Sprint(slices.Sorted(slices.Values(r))))
		case error:
			out = append(out, "error: "+r.Error())
		case *corev1.Pod:
			out = append(out, show(r))
		case interface{ Done() <-chan struct{} }:
			select {
			case <-r.Done():
				out = append(out, "done")
			default:
				out = append(out, "not done")
			}
		default:
			out = append(out, fmt.Sprint(r))
		}
	}
	return strings.Join(out, "; ")
}

// checkerOf returns the result of HasSyncedChecker, or nil if client-go lacks that method.
func checkerOf(of any) any {
	m := reflect.ValueOf(of).MethodByName("HasSyncedChecker")
	if !m.IsValid() {
		return nil
	}
	return m.Call(nil)[0].Interface()
}

// addHandler returns a method that adds a handler by calling add.
func addHandler(add func(inf cache.SharedIndexInformer, h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error)) func(t *testing.T, s *recordedInformer) string {
	return func(t *testing.T, s *recordedInformer) string {
		h := newRecorder()
		reg, err := add(s.informer, h)
		if err != nil {
			// Compare only the text from " was not added" on: the text before contains the handler's type.
			_, text, _ := strings.Cut(err.Error(), " was not added")
			return outcome(reg == nil, text)
		}
		if !s.informer.HasSynced() {
			return outcome(reg.HasSynced(), checkerOf(reg))
		}
		synced(t, reg)
		return outcome(reg.HasSynced(), checkerOf(reg), h.sorted())
	}
}

// ended returns a text that states whether run returns. run uses a context that has ended.
func ended(run func()) string {
	done := make(chan struct{})
	go func() { defer close(done); run() }()
	select {
	case <-done:
		return "ended"
	case <-time.After(waitTimeout):
		return "runs on"
	}
}

func stoppedChannel() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func endedContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// These error texts differ from client-go's.
const (
	closed   = "error: the store is closed"
	conflict = `error: indexer conflict: "namespace" exists`
)

var perNode = cache.Indexers{"node": func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Spec.NodeName}, nil }}

type noRegistration struct {
	cache.ResourceEventHandlerRegistration
}

// informerMethods calls the methods of cache.SharedIndexInformer.
var informerMethods = []method{
	{name: "AddEventHandler", call: addHandler(func(inf cache.SharedIndexInformer, h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
		return inf.AddEventHandler(h)
	})},
	{name: "AddEventHandlerWithResyncPeriod", call: addHandler(func(inf cache.SharedIndexInformer, h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
		return inf.AddEventHandlerWithResyncPeriod(h, time.Minute)
	})},
	{name: "AddEventHandlerWithOptions", call: addHandler(func(inf cache.SharedIndexInformer, h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
		return inf.AddEventHandlerWithOptions(h, cache.HandlerOptions{})
	})},
	{name: "RemoveEventHandler", call: func(t *testing.T, s *recordedInformer) string {
		return outcome(s.informer.RemoveEventHandler(s.registration), s.informer.RemoveEventHandler(s.registration))
	}},
	{name: "RemoveEventHandler of another informer", call: func(t *testing.T, s *recordedInformer) string {
		other, err := cache.NewSharedIndexInformer(s.source, &corev1.Pod{}, 0, nil).AddEventHandler(newRecorder())
		return outcome(err, s.informer.RemoveEventHandler(other))
	}},
	{name: "RemoveEventHandler of none", call: func(t *testing.T, s *recordedInformer) string {
		return outcome(s.informer.RemoveEventHandler((*noRegistration)(nil)) != nil)
	}},
	{name: "GetStore", call: func(t *testing.T, s *recordedInformer) string { return outcome(s.informer.GetStore().List()) }},
	{name: "GetIndexer", call: func(t *testing.T, s *recordedInformer) string { return outcome(s.informer.GetIndexer().List()) }},
	{name: "GetController", call: func(t *testing.T, s *recordedInformer) string {
		c := s.informer.GetController()
		return outcome(c.HasSynced(), checkerOf(c), c.LastSyncResourceVersion())
	}},
	{name: "Run", call: func(t *testing.T, s *recordedInformer) string {
		return ended(func() { s.informer.Run(stoppedChannel()) })
	}},
	{name: "RunWithContext", call: func(t *testing.T, s *recordedInformer) string {
		return ended(func() { s.informer.RunWithContext(endedContext()) })
	}},
	{name: "HasSynced", call: func(t *testing.T, s *recordedInformer) string { return outcome(s.informer.HasSynced()) }},
	{name: "HasSyncedChecker", call: func(t *testing.T, s *recordedInformer) string { return outcome(checkerOf(s.informer)) }},
	{name: "LastSyncResourceVersion", call: func(t *testing.T, s *recordedInformer) string { return outcome(s.informer.LastSyncResourceVersion()) }},
	{name: "SetWatchErrorHandler", call: func(t *testing.T, s *recordedInformer) string {
		return outcome(s.informer.SetWatchErrorHandler(func(*cache.Reflector, error) {}))
	}},
	{name: "SetWatchErrorHandlerWithContext", call: func(t *testing.T, s *recordedInformer) string {
		return outcome(s.informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}))
	}},
	{name: "SetTransform", call: func(t *testing.T, s *recordedInformer) string {
		return outcome(s.informer.SetTransform(func(o any) (any, error) { return o, nil }))
	}},
	{name: "IsStopped", call: func(t *testing.T, s *recordedInformer) string { return outcome(s.informer.IsStopped()) }},
	{name: "AddIndexers", call: func(t *testing.T, s *recordedInformer) string {
		err := s.informer.AddIndexers(perNode)
		found, byErr := s.informer.GetIndexer().ByIndex("node", "n1")
		return outcome(err, found, byErr)
	}},
	{name: "AddIndexers of a name that is taken", call: func(t *testing.T, s *recordedInformer) string {
		return outcome(s.informer.AddIndexers(cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}))
	}, differs: map[string]string{beforeStart: conflict, whileRunning: conflict}},
}

// onStore returns a function that calls call with the informer's store, and formats the results and
// the objects that the store then contains.
func onStore(call func(x cache.Indexer) []any) func(t *testing.T, s *recordedInformer) string {
	return func(t *testing.T, s *recordedInformer) string {
		x := s.informer.GetIndexer()
		return outcome(call(x)...) + "; held: " + outcome(x.List())
	}
}

// readOnly returns the results of a write that differ from client-go's: after Weir's informer has
// ended, it rejects the write and keeps its two objects.
func readOnly(outcome string) map[string]string {
	return map[string]string{afterEnd: outcome + "; held: [d/a@1 v=1, d/b@2 v=2]"}
}

// written returns a pod that a program writes to the store.
func written(name string) *corev1.Pod {
	p := pod(name, "9")
	p.ResourceVersion = "99"
	return p
}

// indexerMethods calls the methods of cache.Indexer, which include those of cache.Store.
var indexerMethods = []method{
	{name: "Add", call: onStore(func(x cache.Indexer) []any { return []any{x.Add(written("c"))} }), differs: readOnly(closed)},
	{name: "Add without a name", call: onStore(func(x cache.Indexer) []any { return []any{x.Add("no object") != nil} })},
	{name: "Update", call: onStore(func(x cache.Indexer) []any { return []any{x.Update(written("a"))} }), differs: readOnly(closed)},
	{name: "Delete", call: onStore(func(x cache.Indexer) []any { return []any{x.Delete(written("a")), x.Delete(written("unknown"))} }), differs: readOnly(closed + "; <nil>")},
	{name: "Delete of a tombstone", call: onStore(func(x cache.Indexer) []any {
		return []any{x.Delete(cache.DeletedFinalStateUnknown{Key: "d/a"})}
	}), differs: readOnly(closed)},
	{name: "Replace", call: onStore(func(x cache.Indexer) []any { return []any{x.Replace([]any{written("z")}, "100")} }), differs: readOnly(closed)},
	{name: "Resync", call: onStore(func(x cache.Indexer) []any { return []any{x.Resync()} })},
	{name: "List", call: onStore(func(x cache.Indexer) []any { return []any{x.List()} })},
	{name: "ListKeys", call: onStore(func(x cache.Indexer) []any { return []any{x.ListKeys()} })},
	{name: "Get", call: onStore(func(x cache.Indexer) []any {
		a, there, err := x.Get(pod("a", ""))
		none, not, err2 := x.Get(pod("none", ""))
		return []any{a, there, err, none, not, err2}
	})},
	{name: "Get without a name", call: onStore(func(x cache.Indexer) []any {
		o, there, err := x.Get("no object")
		var key cache.KeyError
		return []any{o, there, errors.As(err, &key)}
	})},
	{name: "GetByKey", call: onStore(func(x cache.Indexer) []any {
		b, there, err := x.GetByKey("d/b")
		none, not, err2 := x.GetByKey("b")
		return []any{b, there, err, none, not, err2}
	})},
	{name: "Index", call: onStore(func(x cache.Indexer) []any {
		found, err := x.Index(cache.NamespaceIndex, pod("whatever", ""))
		none, err2 := x.Index("unknown", pod("whatever", ""))
		return []any{found, err, none, err2}
	})},
	{name: "IndexKeys", call: onStore(func(x cache.Indexer) []any {
		found, err := x.IndexKeys(cache.NamespaceIndex, "d")
		none, err2 := x.IndexKeys("unknown", "d")
		return []any{found, err, none, err2}
	})},
	{name: "ByIndex", call: onStore(func(x cache.Indexer) []any {
		found, err := x.ByIndex(cache.NamespaceIndex, "d")
		empty, err2 := x.ByIndex(cache.NamespaceIndex, "other")
		none, err3 := x.ByIndex("unknown", "d")
		return []any{found, err, empty, err2, none, err3}
	})},
	{name: "ListIndexFuncValues", call: onStore(func(x cache.Indexer) []any {
		return []any{x.ListIndexFuncValues(cache.NamespaceIndex), x.ListIndexFuncValues("unknown")}
	})},
	{name: "GetIndexers", call: onStore(func(x cache.Indexer) []any { return []any{slices.Collect(maps.Keys(x.GetIndexers()))} })},
	{name: "AddIndexers", call: onStore(func(x cache.Indexer) []any {
		err := x.AddIndexers(perNode)
		found, err2 := x.ByIndex("node", "n1")
		return []any{err, found, err2, x.AddIndexers(perNode) != nil}
	})},
}

// controllerMethods calls the methods of cache.Controller.
var controllerMethods = []method{
	{name: "Run", call: func(t *testing.T, s *recordedInformer) string {
		return ended(func() { s.informer.GetController().Run(stoppedChannel()) })
	}},
	{name: "RunWithContext", call: func(t *testing.T, s *recordedInformer) string {
		return ended(func() { s.informer.GetController().RunWithContext(endedContext()) })
	}},
	{name: "HasSynced", call: func(t *testing.T, s *recordedInformer) string { return outcome(s.informer.GetController().HasSynced()) }},
	{name: "HasSyncedChecker", call: func(t *testing.T, s *recordedInformer) string {
		return outcome(checkerOf(s.informer.GetController()))
	}},
	{name: "LastSyncResourceVersion", call: func(t *testing.T, s *recordedInformer) string {
		return outcome(s.informer.GetController().LastSyncResourceVersion())
	}},
}

// shardRow calls SetShardSelector, which client-go has since v0.38.
var shardRow = method{name: "SetShardSelector", call: func(t *testing.T, s *recordedInformer) string {
	set := reflect.ValueOf(s.informer).MethodByName("SetShardSelector")
	return outcome(set.Call([]reflect.Value{reflect.Zero(set.Type().In(0))})[0].Interface())
}}

// TestMethods calls every method of informers, indexers and controllers in every phase of an
// informer, and compares the results of client-go and Weir. It fails if a later client-go adds a
// method.
func TestMethods(t *testing.T) {
	for what, table := range map[reflect.Type][]method{
		reflect.TypeFor[cache.SharedIndexInformer](): informerMethods,
		reflect.TypeFor[cache.Indexer]():             append(indexerMethods, newerIndexerMethods...),
		reflect.TypeFor[cache.Controller]():          controllerMethods,
	} {
		if _, ok := what.MethodByName("SetShardSelector"); ok {
			table = append(table, shardRow)
		}
		complete(t, what, table)
		for _, m := range table {
			for _, phase := range phases {
				t.Run(fmt.Sprintf("%s.%s %s", what.Name(), m.name, phase), func(t *testing.T) {
					theirs, ours := m.call(t, inPhase(t, newClientGo, phase)), m.call(t, inPhase(t, NewSharedIndexInformer, phase))
					want, differs := m.differs[phase]
					switch {
					case !differs && ours != theirs:
						t.Errorf("weir: %s\nclient-go: %s", ours, theirs)
					case differs && (ours != want || ours == theirs):
						t.Errorf("weir: %s\nnot: %s\nclient-go: %s", ours, want, theirs)
					}
				})
			}
		}
	}
}

// complete checks that the table has a row for each method of an interface.
func complete(t *testing.T, what reflect.Type, table []method) {
	t.Helper()
	for i := range what.NumMethod() {
		name := what.Method(i).Name
		if callsEveryMethod && !slices.ContainsFunc(table, func(m method) bool { first, _, _ := strings.Cut(m.name, " "); return first == name }) {
			t.Errorf("%s.%s is not called", what.Name(), name)
		}
	}
}

// inPhase returns an informer with two pods and a handler, in the given phase.
func inPhase(t *testing.T, make constructor, phase string) *recordedInformer {
	s := newRecordedInformer(t, make)
	s.source.Add(pod("a", "1"))
	s.source.Add(pod("b", "2"))
	if phase != beforeStart {
		s.start(t)
	}
	if phase == afterEnd {
		s.stop()
	}
	return s
}
