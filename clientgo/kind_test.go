package clientgo

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// statedKinds contains the apiVersion and kind that a pod states, by the value of the pod's label
// v.
var statedKinds = map[string]metav1.TypeMeta{
	"1": {APIVersion: "v1", Kind: "Pod"},
	"2": {APIVersion: "v1", Kind: "Pod"},
	"3": {},
	"4": {APIVersion: "x/y/z", Kind: "a/b"},
	"5": {Kind: "Pod"},
	"6": {APIVersion: "v1"},
}

func stateKind(obj any) (any, error) {
	p := obj.(*corev1.Pod)
	p.TypeMeta = statedKinds[p.Labels["v"]]
	return p, nil
}

// kindRecorder is a recorder that also records the kinds that objects state.
type kindRecorder struct{ *recorder }

func (r kindRecorder) OnAdd(obj any, _ bool)   { r.note("add %s", showKind(obj)) }
func (r kindRecorder) OnUpdate(was, is any)    { r.note("update %s -> %s", showKind(was), showKind(is)) }
func (r kindRecorder) OnDelete(obj any)        { r.note("delete %s", showKind(obj)) }
func (r kindRecorder) sortedChanges() string   { return withoutUnchanged(r.sorted()) }
func kindIndex(obj any) (of []string, _ error) { return []string{obj.(*corev1.Pod).Kind}, nil }

func showKind(obj any) string {
	if tomb, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return "tombstone " + showKind(tomb.Obj)
	}
	p := obj.(*corev1.Pod)
	return fmt.Sprintf("%s %q %q", show(p), p.APIVersion, p.Kind)
}

// heldKinds returns the kinds that the objects of an indexer state, for each way to read the
// indexer.
func heldKinds(t *testing.T, x cache.Indexer) string {
	t.Helper()
	listed, err := corelisters.NewPodLister(x).Pods("d").List(labels.Everything())
	check.NoError(t, err)
	var lines []string
	for _, p := range listed {
		lines = append(lines, "lister "+showKind(p))
	}
	for _, obj := range x.List() {
		lines = append(lines, "list "+showKind(obj))
	}
	for _, key := range x.ListKeys() {
		obj, _, err := x.GetByKey(key)
		check.NoError(t, err)
		lines = append(lines, "get "+showKind(obj))
	}
	for _, kind := range x.ListIndexFuncValues("kind") {
		objects, err := x.ByIndex("kind", kind)
		check.NoError(t, err)
		for _, obj := range objects {
			lines = append(lines, "by "+kind+" "+showKind(obj))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// kindStory sends pods that state various kinds to an informer, through watches and lists. It
// returns the kinds that a handler and readers received.
func kindStory(t *testing.T, make constructor, transform cache.TransformFunc) (told string) {
	s := newRecordedInformer(t, make)
	kinds := kindRecorder{newRecorder()}
	_, err := s.informer.AddEventHandler(kinds)
	if err == nil && transform != nil {
		err = s.informer.SetTransform(transform)
	}
	if err == nil {
		err = s.informer.AddIndexers(cache.Indexers{"kind": kindIndex})
	}
	check.NoError(t, err)
	version := func(name, v string) *corev1.Pod {
		p := pod(name, v)
		if transform == nil {
			p.TypeMeta = statedKinds[v]
		}
		return p
	}
	s.source.Add(version("a", "1"))
	s.source.Add(version("b", "1"))
	s.start(t)
	for _, v := range []string{"2", "3", "4", "4", "5", "6", "1", "3"} {
		s.source.Modify(version("a", v))
	}
	s.source.Add(version("c", "4"))
	s.calls.wait(t, "add d/c@11 v=4")
	told = heldKinds(t, s.informer.GetIndexer())
	// The watch does not send these changes; the informer receives them in a list.
	s.source.DeleteDropWatch(version("b", "1"))
	s.source.ModifyDropWatch(version("a", "5"))
	s.source.ResetWatch()
	s.calls.wait(t, "update d/a@10 v=3 -> d/a@13 v=5")
	s.calls.wait(t, "delete tombstone d/b d/b@2 v=1")
	s.source.watches.wait(t)
	s.source.Modify(version("a", "1"))
	s.source.Delete(version("c", "1"))
	s.calls.wait(t, "delete d/c@15 v=1")
	synctest.Wait() // for the handler that records kinds
	told += "\n" + kinds.sortedChanges() + "\n" + heldKinds(t, s.informer.GetIndexer())
	if inf, ok := s.informer.(*informer); ok && !inf.sink.pin {
		isProtobuf(t, inf)
	}
	s.stop()
	return told
}

// isProtobuf fails the test if an informer stores an object in another form than protobuf.
func isProtobuf(t *testing.T, inf *informer) {
	t.Helper()
	for o := range inf.store.Snapshot().All() {
		if raw, err := o.AppendRaw(nil); err != nil || len(raw) == 0 || raw[0] == '{' {
			t.Errorf("%s is held as %.40q, %v", o.Key(), raw, err)
		}
	}
}

// TestStatedKinds sets the apiVersion and kind of objects to usual and unusual values. A transform
// or the ListerWatcher sets them. It checks that handlers, listers and index functions receive the
// same values with Weir's informer as with client-go's.
func TestStatedKinds(t *testing.T) {
	ours := map[string]constructor{
		"weir":    NewSharedIndexInformer,
		"shared":  withOptions(Options{ShareDecoded: true}),
		"private": withOptions(Options{PrivateCopies: true}),
		"pinned":  withOptions(Options{PinDecoded: true}),
	}
	for from, transform := range map[string]cache.TransformFunc{"transformed": stateKind, "returned": nil} {
		var want string
		synctest.Test(t, func(t *testing.T) { want = kindStory(t, newClientGo, transform) })
		if !strings.Contains(want, `d/a@5 v=4 "x/y/z" "a/b"`) {
			t.Fatalf("%s: client-go tells no kind:\n%s", from, want)
		}
		for maker, make := range ours {
			t.Run(from+"/"+maker, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					check.Equal(t, kindStory(t, make, transform), want, "told")
				})
			})
		}
	}
}

// kindChecker is a recorder that checks that objects state the kind Pod.
type kindChecker struct {
	*recorder
	t *testing.T
}

func (c kindChecker) check(objects ...any) {
	for _, obj := range objects {
		if tomb, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = tomb.Obj
		}
		if p := obj.(*corev1.Pod); p.TypeMeta != statedKinds["1"] {
			c.t.Errorf("%s states %v", show(p), p.TypeMeta)
		}
	}
}

func (c kindChecker) OnAdd(obj any, initial bool) { c.check(obj); c.recorder.OnAdd(obj, initial) }
func (c kindChecker) OnUpdate(was, is any)        { c.check(was, is); c.recorder.OnUpdate(was, is) }
func (c kindChecker) OnDelete(obj any)            { c.check(obj); c.recorder.OnDelete(obj) }

// TestStatedKindsCaptured uses a transform that sets the kind of captured pods. It checks that
// handlers and readers receive the kind after a first list, after watch events and after a relist.
// It also checks that the pods are stored as protobuf.
func TestStatedKindsCaptured(t *testing.T) {
	for _, contentType := range []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON} {
		for _, opts := range []Options{{}, {ShareDecoded: true}} {
			t.Run(fmt.Sprint(contentType, " shared ", opts.ShareDecoded), func(t *testing.T) { captureKinds(t, contentType, opts) })
		}
	}
}

func captureKinds(t *testing.T, contentType string, opts Options) {
	faults := &apiserver.Faults{}
	server := serve(t, apiserver.Options{Pods: 30, Faults: faults})
	client := fill(t, server.Config()).CoreV1()
	cfg := capturing(server.Config())
	line := &breakableLine{}
	cfg.ContentType, cfg.Dial = contentType, line.dial
	inf := NewSharedIndexInformerWithOptions(podsOf(cfg), &corev1.Pod{}, 0, nil, opts).(*informer)
	check.NoError(t, inf.SetTransform(func(obj any) (any, error) {
		obj.(*corev1.Pod).TypeMeta = statedKinds["1"]
		return obj, nil
	}))
	checker := kindChecker{newRecorder(), t}
	for range 2 {
		register(t, inf, checker)
	}
	runSynced(t, inf)
	checker.waitCount(t, 60)
	held := inf.GetStore().List()
	changed, gone := held[0].(*corev1.Pod), held[1].(*corev1.Pod)
	for i := range 3 {
		p, err := client.Pods(changed.Namespace).Get(t.Context(), changed.Name, metav1.GetOptions{})
		if err == nil {
			p.Status.Message = fmt.Sprint(i)
			p, err = client.Pods(p.Namespace).UpdateStatus(t.Context(), p, metav1.UpdateOptions{})
		}
		check.NoError(t, err)
		checker.until(t, "an update", func(lines []string) bool { return strings.Contains(lines[len(lines)-1], " -> "+show(p)) })
	}
	// No watch reports the deletion, and the server no longer has the event of the deletion.
	cut := int64(0)
	remove := faults.Add(apiserver.Rule{Match: apiserver.Match("watch", "pods"), Cut: &cut, CutCleanly: true})
	line.breakOff()
	check.NoError(t, client.Pods(gone.Namespace).Delete(t.Context(), gone.Name, *metav1.NewDeleteOptions(0)))
	server.Compact()
	remove()
	checker.wait(t, "delete tombstone "+gone.Namespace+"/"+gone.Name+" "+show(gone))
	held = inf.GetStore().List()
	if checker.check(held...); len(held) != 29 {
		t.Errorf("%d pods are held", len(held))
	}
	isProtobuf(t, inf)
}

// breakableLine dials connections, and can break them.
type breakableLine struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (l *breakableLine) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.conns = append(l.conns, conn)
	}
	return conn, err
}

func (l *breakableLine) breakOff() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		_ = conn.Close()
	}
	l.conns = nil
}
