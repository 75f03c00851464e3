package weir

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/checks"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// holding returns an informer that does not run and stores some objects.
func holding(t *testing.T, opts Options, names ...string) *Informer[*corev1.Pod] {
	t.Helper()
	inf, err := NewInformer[*corev1.Pod](&rest.Config{Host: "http://127.0.0.1:1"}, opts)
	check.NoError(t, err)
	ended, end := context.WithCancel(context.Background())
	end()
	t.Cleanup(func() { _ = inf.Run(ended) }) // stops the store; a second Run returns an error
	w := inf.store.Writer(store.Scope{})
	for _, name := range names {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, UID: "u", ResourceVersion: "1", Labels: map[string]string{"a": name}},
			Spec:       corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists}}},
		}
		raw, err := p.Marshal()
		check.NoError(t, err)
		var m wire.Meta
		check.NoError(t, wire.ReadMeta(wire.Protobuf, raw, &m))
		check.NoError(t, w.Put(&m, raw))
	}
	w.Flush()
	return inf
}

// The detector names exactly the object that a reader, a handler or an index function has changed.
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

// The environment variable of client-go's detector enables Weir's, which ends with the informer.
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

// A Run that is refused because the informer already runs does not affect the detector of the
// active Run.
func TestDetectMutationAfterRefusedRun(t *testing.T) {
	inf := holding(t, Options{DetectMutation: true}, "a")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- inf.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	if err := inf.WaitForErr(ctx); !errors.Is(err, ErrUnreachable) {
		t.Fatalf("no server: %v", err) // it runs, or it would not know
	}
	check.ErrorIs(t, inf.Run(ctx), ErrRunning, "a second Run")
	if !inf.reader.detector.Watching() {
		t.Error("off, though the informer runs")
	}
}

// With ShareDecoded a copy still shares nothing: neither with other copies of any object nor with
// readers' objects.
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
