package weir

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/checks"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// holding returns an informer that is not running and stores pods of these names.
func holding(t *testing.T, opts Options, names ...string) *Informer[*corev1.Pod] {
	t.Helper()
	inf, err := NewInformer[*corev1.Pod](&rest.Config{Host: "http://127.0.0.1:1"}, opts)
	check.NoError(t, err)
	ended, end := context.WithCancel(context.Background())
	end()
	t.Cleanup(func() { _ = inf.Run(ended) }) // closes the store
	w := inf.store.Writer(store.Scope{})
	for _, name := range names {
		write(t, w.Put, podOf(name, "u", "1"))
	}
	w.Flush()
	return inf
}

// TestDetectMutation checks that the detector reports exactly the object that a reader, a handler
// or an index function has changed.
func TestDetectMutation(t *testing.T) {
	for name, change := range map[string]func(inf *Informer[*corev1.Pod]) (any, error){
		"Get": func(inf *Informer[*corev1.Pod]) (any, error) { return inf.Get("d/b") },
		"Old": func(inf *Informer[*corev1.Pod]) (any, error) {
			o, _ := inf.store.Get("d/b")
			return eventOf[*corev1.Pod](store.Change{Old: o}, inf.reader).Old()
		},
		"an index": func(inf *Informer[*corev1.Pod]) (kept any, err error) {
			err = inf.AddIndex("i", ByFunc(func(p *corev1.Pod) ([]string, error) {
				if p.Name == "b" {
					kept = p
				}
				return []string{p.Name}, nil
			}))
			for range inf.By("i", "b") {
			}
			return kept, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inf := holding(t, Options{DetectMutation: true}, "a", "b")
			var found []string
			inf.reader.detector = checks.NewMutationDetector(func(key, _ string) { found = append(found, key) })
			for _, err := range inf.All() {
				check.NoError(t, err)
			}
			object, err := change(inf)
			check.NoError(t, err)
			if inf.reader.detector.Compare(); found != nil {
				t.Errorf("found %v before anything was changed", found)
			}
			testenv.ScribbleOver(object)
			if inf.reader.detector.Compare(); strings.Join(found, " ") != "d/b" {
				t.Errorf("found %v", found)
			}
		})
	}
}

// TestDetectMutationByEnvironment checks that the environment variable of client-go's detector also
// enables Weir's, and that the detector stops with the informer.
func TestDetectMutationByEnvironment(t *testing.T) {
	if inf := holding(t, Options{}); inf.reader.detector != nil {
		t.Error("on without being asked for")
	}
	t.Setenv("KUBE_CACHE_MUTATION_DETECTOR", "true")
	inf := holding(t, Options{ShareDecoded: true}, "a")
	if inf.reader.detector == nil {
		t.Fatal("off")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	check.NoError(t, inf.Run(ctx))
	if inf.reader.detector.Watching() {
		t.Error("goes on after the informer")
	}
}

// TestDetectMutationAfterRefusedRun checks that a second Run, which returns ErrRunning, does not
// stop the detector of the active Run.
func TestDetectMutationAfterRefusedRun(t *testing.T) {
	inf := holding(t, Options{DetectMutation: true}, "a")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- inf.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	if err := inf.WaitForErr(ctx); !errors.Is(err, ErrUnreachable) {
		t.Fatalf("no server: %v", err) // wait for any error: it shows that the first Run is active
	}
	check.ErrorIs(t, inf.Run(ctx), ErrRunning, "a second Run")
	if !inf.reader.detector.Watching() {
		t.Error("off, though the informer runs")
	}
}

// TestCopyWithShareDecoded checks that Copy returns an object that shares nothing, neither with
// other copies nor with shared objects, even if ShareDecoded is set.
func TestCopyWithShareDecoded(t *testing.T) {
	inf := holding(t, Options{ShareDecoded: true}, "a", "b")
	var copies []*corev1.Pod
	for _, key := range []string{"d/a", "d/a", "d/a", "d/b"} {
		item, _ := inf.Item(key)
		p, err := item.Copy()
		check.NoError(t, err)
		copies = append(copies, p)
	}
	shared, err := inf.Get("d/a")
	check.NoError(t, err)
	testenv.ScribbleOver(copies[1])
	for i, p := range append(copies, shared) {
		if key := p.Spec.Tolerations[0].Key; i != 1 && key != "node.kubernetes.io/not-ready" {
			t.Errorf("after a change of copy 1, object %d has a toleration of %q", i, key)
		}
	}
}

// TestEventsOfDeletions checks that a Deleted event contains the version of the deletion, and
// reports whether the handler received the final state. It also checks that a new object with a
// deleted object's name is not an update of the deleted object.
func TestEventsOfDeletions(t *testing.T) {
	f := NewFactory(t.Context(), unreachable())
	defer f.Shutdown()
	l := acquired(t, f, Options{})
	told := make(chan string)
	if _, err := l.Handle(func(ctx context.Context, e Event[*corev1.Pod]) {
		line := fmt.Sprintf("%s %s at %q", e.Type, e.Item().UID(), e.ResourceVersion())
		if !e.OldItem().IsZero() {
			line += " from " + e.OldItem().ResourceVersion()
		}
		if e.FinalStateUnknown {
			line += " unknown"
		}
		if p, err := e.Object(); err != nil || string(p.UID) != e.Item().UID() {
			line += fmt.Sprintf(": %v %v", p, err)
		}
		if _, err := e.Old(); (e.Type == Added) != errors.Is(err, ErrNotFound) {
			line += fmt.Sprintf(": old %v", err)
		}
		select {
		case told <- line:
		case <-ctx.Done():
		}
	}, HandlerOptions[*corev1.Pod]{}); err != nil {
		t.Fatal(err)
	}
	w := l.informer.store.Writer(store.Scope{})
	w.BeginReplace(false)
	write(t, w.Put, podOf("a", "one", "1"))
	w.EndReplace("2")
	for _, step := range []struct {
		do   func()
		want []string
	}{
		{func() {}, []string{`ADDED one at "1"`}},
		{func() { write(t, w.Put, podOf("a", "one", "3")) }, []string{`MODIFIED one at "3" from 1`}},
		{func() { write(t, w.Put, podOf("a", "two", "5")) }, []string{`DELETED one at "" from 3 unknown`, `ADDED two at "5"`}},
		{func() { write(t, w.Delete, podOf("a", "two", "6")) }, []string{`DELETED two at "6" from 5`}},
		{func() { write(t, w.Put, podOf("a", "three", "7")) }, []string{`ADDED three at "7"`}},
		{func() { w.BeginReplace(false); w.EndReplace("9") }, []string{`DELETED three at "9" from 7 unknown`}},
	} {
		step.do()
		w.Flush()
		for _, want := range step.want {
			check.Equal(t, <-told, want)
		}
	}
}
