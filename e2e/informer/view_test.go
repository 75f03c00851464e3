package informer

import (
	"context"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

var modes = []weir.Mode{weir.ModeList, weir.ModeWatchList, weir.ModePages}

// view is an informer's objects according to the events that a handler receives. It checks that the
// old object of each event is the object that the view contains.
type view struct {
	t       *testing.T
	inf     *weir.Informer[*corev1.Pod]
	mu      sync.Mutex
	held    map[string]string // resourceVersion by key
	handled *weir.Registration
}

func newView(t *testing.T, inf *weir.Informer[*corev1.Pod]) *view {
	t.Helper()
	v := &view{t: t, inf: inf, held: map[string]string{}}
	r, err := inf.Handle(v.handle, weir.HandlerOptions[*corev1.Pod]{})
	check.NoError(t, err)
	v.handled = r
	return v
}

func (v *view) handle(_ context.Context, e weir.Event[*corev1.Pod]) {
	v.mu.Lock()
	defer v.mu.Unlock()
	have, ok := v.held[e.Key()]
	old := e.OldItem()
	if ok != !old.IsZero() || ok && old.ResourceVersion() != have {
		v.t.Errorf("%s %s does not follow from %q", e.Type, e.Key(), have)
	}
	if e.Type == weir.Deleted {
		delete(v.held, e.Key())
		return
	}
	v.held[e.Key()] = e.ResourceVersion()
}

// check waits until the handler has received all events, and compares the view with the informer's
// objects. No writer may change the objects during check.
func (v *view) check(ctx context.Context) {
	v.t.Helper()
	testenv.Eventually(v.t, ctx, "the handler has been told of everything", func() bool { return v.handled.Stats().Lag == 0 && v.handled.Stats().Busy == 0 })
	v.mu.Lock()
	defer v.mu.Unlock()
	n := 0
	for i := range v.inf.Snapshot().Items() {
		n++
		if v.held[i.Key()] != i.ResourceVersion() {
			v.t.Errorf("%s: the handler has %q, the informer %q", i.Key(), v.held[i.Key()], i.ResourceVersion())
		}
	}
	check.Equal(v.t, n, len(v.held), "the handler has %d objects, the informer", len(v.held))
}
