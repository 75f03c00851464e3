package weir_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestInitial: the events for the objects of the first list, and for the objects that were stored
// when the handler was added, are initial. Later events are not.
func TestInitial(t *testing.T) {
	server, client, ctx := serve(t, apiserver.Options{})
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	makeConfigMap(ctx, client, "d", "a-listed")
	inf, err := weir.NewInformer[*corev1.ConfigMap](server.Config(), weir.Options{})
	check.NoError(t, err)
	handle := func() (*weir.Registration, <-chan string) {
		t.Helper()
		events := make(chan string, 10)
		r, err := inf.Handle(func(_ context.Context, e weir.Event[*corev1.ConfigMap]) {
			events <- fmt.Sprintf("%s %s %t", e.Type, e.Key(), e.Initial)
		}, weir.HandlerOptions[*corev1.ConfigMap]{})
		check.NoError(t, err)
		return r, events
	}
	expect := func(events <-chan string, want ...string) {
		t.Helper()
		var got []string
		for range want {
			select {
			case e := <-events:
				got = append(got, e)
			case <-ctx.Done():
				t.Fatalf("got %q and no more, want %q", got, want)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	first, early := handle()
	run(ctx, inf, &wg)
	check.NoError(t, first.WaitForSync(ctx))
	makeConfigMap(ctx, client, "d", "b-watched")
	expect(early, "ADDED d/a-listed true", "ADDED d/b-watched false")
	second, late := handle()
	check.NoError(t, second.WaitForSync(ctx))
	makeConfigMap(ctx, client, "d", "c-later")
	expect(late, "ADDED d/a-listed true", "ADDED d/b-watched true", "ADDED d/c-later false")
	expect(early, "ADDED d/c-later false")
}
