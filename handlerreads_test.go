package weir_test

import (
	"context"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// Handlers that read every object, several of them and repeatedly, leave no decoded objects behind.
// Otherwise the first list would stay decoded as a whole.
func TestHandlersHoldNothing(t *testing.T) {
	server, _, ctx := serve(t, apiserver.Options{Pods: 300})
	inf, err := weir.NewInformer[*corev1.Pod](server.Config(), weir.Options{})
	check.NoError(t, err)
	var looked atomic.Int32
	var handlers []*weir.Registration
	for range 3 {
		r, err := inf.Handle(func(_ context.Context, e weir.Event[*corev1.Pod]) {
			first, err := e.Object()
			again, err2 := e.Item().Object()
			if err != nil || err2 != nil || first != again {
				t.Error(first, again, err, err2)
			}
			looked.Add(1)
		}, weir.HandlerOptions[*corev1.Pod]{})
		check.NoError(t, err)
		handlers = append(handlers, r)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- inf.Run(ctx) }()
	for _, h := range handlers {
		check.NoError(t, h.WaitForSync(ctx))
	}
	const tracked = 300 * 160 // the copies of each object while a caller may still use them
	if held := inf.Stats().Memory.Decoded; looked.Load() != 900 || held > tracked {
		t.Errorf("%d objects were looked at; %d bytes are held decoded", looked.Load(), held)
	}
	if s := inf.Stats(); s.DecodedMisses < 300 || s.DecodedHits < 900 || s.DecodedHits+s.DecodedMisses != 1800 {
		t.Errorf("of 1,800 reads %d found the object decoded, and %d did not", s.DecodedHits, s.DecodedMisses)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
