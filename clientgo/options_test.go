package clientgo

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2/textlogger"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/checks"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestPinDecoded checks that with PinDecoded every reader receives the same value, and the informer
// stores no packed bytes.
func TestPinDecoded(t *testing.T) {
	server := serve(t, apiserver.Options{Pods: 20})
	inf := NewSharedIndexInformerWithOptions(podsOf(capturing(server.Config())), &corev1.Pod{}, 0, nil, Options{PinDecoded: true}).(*informer)
	runSynced(t, inf)
	if m := inf.store.Memory(); m.Raw != 0 || m.Objects != 20 {
		t.Errorf("%d raw bytes, %d objects", m.Raw, m.Objects)
	}
	one, two := inf.GetStore().List(), inf.GetStore().List()
	for i := range one {
		if one[i] != two[i] {
			t.Fatal("two readers got two objects")
		}
	}
}

// TestPrivateCopies checks that objects are shared unless PrivateCopies is set.
func TestPrivateCopies(t *testing.T) {
	for _, private := range []bool{false, true} {
		inf := NewSharedIndexInformerWithOptions(&cache.ListWatch{}, &corev1.Pod{}, 0, nil, Options{PrivateCopies: private})
		check.NoError(t, inf.GetStore().Add(pod("a", "1")))
		one, _, _ := inf.GetStore().GetByKey("d/a")
		two, _, _ := inf.GetStore().GetByKey("d/a")
		if (one == two) == private {
			t.Errorf("private %v: same %v", private, one == two)
		}
	}
}

// TestDetectMutation checks that the detector reports the key of exactly the object that was
// changed.
func TestDetectMutation(t *testing.T) {
	c := newChangingStore(t, Options{DetectMutation: true})
	var found []string
	d := checks.NewMutationDetector(func(key, what string) { found = append(found, key+": "+what) })
	c.inf.indexer.reader.mutationDetector = d
	c.change(t, "a")
	c.change(t, "b")
	all := c.inf.GetStore().List()
	d.Compare()
	if found != nil {
		t.Errorf("found %v before anything was changed", found)
	}
	all[1].(*corev1.Pod).Labels["v"] = "changed"
	d.Compare()
	if len(found) != 1 || !strings.HasPrefix(found[0], "d/b: ") || !strings.Contains(found[0], "changed") {
		t.Errorf("found %v", found)
	}
}

// TestMutationOfOwnObject checks that a program may change an object that it has itself written to
// the store, and write it again. As with client-go, it may do so even after other callers have read
// the object.
func TestMutationOfOwnObject(t *testing.T) {
	c := newChangingStore(t, Options{DetectMutation: true})
	reader, handed := c.inf.indexer.reader, c.change(t, "a")
	found := 0
	reader.mutationDetector = checks.NewMutationDetector(func(string, string) { found++ })
	if _, _, err := reader.values(&store.Change{New: handed}); err != nil {
		t.Fatal(err)
	}
	own := pod("a", "own")
	for i := range 3 {
		own.Labels["v"] = fmt.Sprint("own ", i)
		check.NoError(t, c.inf.GetStore().Update(own))
		held, ok := c.inf.store.Get("d/a")
		if !ok {
			t.Fatal("not held")
		}
		_, is, err := reader.values(&store.Change{New: held})
		if err != nil || is != own || len(c.inf.GetStore().List()) != 1 {
			t.Errorf("handed out %s, %v", show(is), err)
		}
		if _, _, err := reader.values(&store.Change{Old: handed, New: held}); err != nil {
			t.Fatal(err)
		}
		handed = held
	}
	if reader.mutationDetector.Compare(); found != 0 {
		t.Errorf("found %d changes", found)
	}
}

// TestMutationOfPrivateCopy checks that a handler may change its own copy of a deleted object.
func TestMutationOfPrivateCopy(t *testing.T) {
	c := newChangingStore(t, Options{PrivateCopies: true, DetectMutation: true})
	reader, found := c.inf.indexer.reader, 0
	reader.mutationDetector = checks.NewMutationDetector(func(string, string) { found++ })
	last := c.change(t, "a")
	gone, err := reader.deletedValue(&store.Change{Old: last, ResourceVersion: last.Revision() + 1})
	check.NoError(t, err)
	gone.(*corev1.Pod).Labels["v"] = "changed"
	if reader.mutationDetector.Compare(); found != 0 {
		t.Errorf("found %d changes", found)
	}
}

// TestDetectMutationByEnvironment checks that client-go's environment variable turns the detector
// on, and that the detector ends with the informer.
func TestDetectMutationByEnvironment(t *testing.T) {
	t.Setenv("KUBE_CACHE_MUTATION_DETECTOR", "true")
	s := newRecordedInformer(t, NewSharedIndexInformer)
	s.source.Add(pod("a", "1"))
	s.start(t)
	d := s.informer.(*informer).indexer.reader.mutationDetector
	if d == nil {
		t.Fatal("off")
	}
	s.informer.GetStore().List()
	s.stop()
	if d.Watching() {
		t.Error("goes on after the informer")
	}
}

// TestHandlerLogger checks that the informer logs a panic of a handler with the logger that the
// handler was added with, as client-go does.
func TestHandlerLogger(t *testing.T) {
	survive(t)
	for maker, make := range bothConstructors {
		t.Run(maker, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // client-go pauses after a panic
				s := newRecordedInformer(t, make)
				var log bytes.Buffer
				logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log)))
				next := newRecorder()
				if _, err := s.informer.AddEventHandlerWithOptions(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
					if obj.(*corev1.Pod).Name == "a" {
						panic("a is too much")
					}
					next.OnAdd(obj, false)
				}}, cache.HandlerOptions{Logger: &logger}); err != nil {
					t.Fatal(err)
				}
				s.source.Add(pod("a", "1"))
				s.start(t)
				s.source.Add(pod("b", "1"))
				next.wait(t, "add d/b@2 v=1") // pod a was handled before
				if header, text, _ := strings.Cut(log.String(), "] "); !strings.Contains(header, "options_test.go:") ||
					!strings.Contains(text, "a is too much") || !strings.Contains(text, "TestHandlerLogger") {
					t.Errorf("its logger has %q", log.String())
				}
			})
		})
	}
}

// TestResync checks that a handler with a resync period receives each object once per period. A
// period shorter than a second must count as one second. A handler with the period 0 must receive
// no resyncs.
func TestResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newFakeSource(t)
		for _, name := range []string{"a", "b", "c", "e"} {
			source.Add(pod(name, "1"))
		}
		inf := NewSharedIndexInformer(source, &corev1.Pod{}, time.Minute, nil)
		resynced := func(period time.Duration) *recorder {
			calls := newRecorder()
			_, err := inf.AddEventHandlerWithResyncPeriod(calls, period)
			check.NoError(t, err)
			return calls
		}
		quick, slow, none := resynced(10*time.Millisecond), observe(t, inf), resynced(0)
		stop := runSynced(t, inf)
		time.Sleep(60500 * time.Millisecond)
		late := resynced(10 * time.Millisecond)
		time.Sleep(10 * time.Second)
		stop()
		for name, test := range map[string]struct {
			calls     *recorder
			low, high int
		}{
			"a second":     {quick, 4 * 69, 4 * 71},
			"a minute":     {slow, 4, 5},
			"none":         {none, 0, 0},
			"late, second": {late, 4 * 9, 4 * 11},
		} {
			n := len(test.calls.all()) - 4
			if n < test.low || n > test.high {
				t.Errorf("%s: %d resyncs, want %d to %d", name, n, test.low, test.high)
			}
		}
	})
	inf := NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, nil)
	reg, err := inf.AddEventHandlerWithResyncPeriod(newRecorder(), time.Second)
	check.NoError(t, err)
	check.NoError(t, inf.RemoveEventHandler(reg))
}
