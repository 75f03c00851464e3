package clientgo

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// survive makes panics of the program's functions be logged only, as programs can configure
// client-go to do.
func survive(t *testing.T) {
	utilruntime.ReallyCrash = false
	t.Cleanup(func() { utilruntime.ReallyCrash = true })
}

// TestPanickingHandler checks that a handler continues after a panic if crashing is turned off, and
// that its panics are counted.
func TestPanickingHandler(t *testing.T) {
	survive(t)
	s := newRecordedInformer(t, NewSharedIndexInformer)
	panicking := newRecorder()
	reg, err := s.informer.AddEventHandler(panicsAtA(panicking))
	check.NoError(t, err)
	s.source.Add(pod("a", "1"))
	s.start(t)
	panicking.wait(t, "add d/a@1 v=1")
	s.source.Add(pod("b", "1")) // a watch event, so it follows
	panicking.wait(t, "add d/b@2 v=1")
	check.Equal(t, reg.(*registration).delivery.Stats().Panics, 1, "panics are counted")
}

// panicsAtA returns a handler that panics after it has recorded the object a.
func panicsAtA(to *recorder) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		to.OnAdd(obj, false)
		if obj.(*corev1.Pod).Name == "a" {
			panic("a is too much")
		}
	}}
}

// crashing is the environment variable that makes TestPanicEndsProcess panic, with the constructor
// that it names.
const crashing = "WEIR_TEST_CRASHING"

// TestPanicEndsProcess checks that a handler's panic ends the process (a child of the test's), and
// that the log shows where it happened, as with client-go.
func TestPanicEndsProcess(t *testing.T) {
	if make := bothConstructors[os.Getenv(crashing)]; make != nil {
		s := newRecordedInformer(t, make)
		panicking := newRecorder()
		if _, err := s.informer.AddEventHandler(panicsAtA(panicking)); err != nil {
			t.Fatal(err)
		}
		s.source.Add(pod("a", "1"))
		s.start(t)
		s.source.Add(pod("b", "1"))
		panicking.wait(t, "add d/b@2 v=1") // never arrives
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

// TestPanickingTransform checks that an object for which a transform panics is left out, if
// crashing is turned off.
func TestPanickingTransform(t *testing.T) {
	survive(t)
	s := newRecordedInformer(t, NewSharedIndexInformer)
	check.NoError(t, s.informer.SetTransform(func(obj any) (any, error) {
		if obj.(*corev1.Pod).Name == "a" {
			panic("a is too much")
		}
		return obj, nil
	}))
	s.source.Add(pod("a", "1"))
	s.start(t)
	s.source.Add(pod("b", "1"))
	s.calls.wait(t, "add d/b@2 v=1")
	if keys := s.informer.GetStore().ListKeys(); len(keys) != 1 {
		t.Errorf("holds %q", keys)
	}
	s.stop()
}

// TestPanickingList checks that a List that panics is retried, and that a panicking watch error
// handler stops nothing, if crashing is turned off.
func TestPanickingList(t *testing.T) {
	survive(t)
	var lists, told atomic.Int32
	server := serve(t, apiserver.Options{Pods: 3})
	inner := podsOf(capturing(server.Config()))
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if lists.Add(1) == 1 {
				panic("not yet")
			}
			return inner.ListWithContext(ctx, o)
		},
		WatchFuncWithContext: inner.WatchWithContext,
	}
	inf := NewSharedIndexInformer(lw, &corev1.Pod{}, 0, nil)
	check.NoError(t, inf.SetWatchErrorHandler(func(*cache.Reflector, error) {
		told.Add(1)
		panic("no error is expected")
	}))
	stop := run(t, inf)
	synced(t, inf.HasSyncedChecker())
	if told.Load() == 0 {
		t.Error("the handler of errors was not told")
	}
	stop()
}
