//go:build !weir_safe

package clientgo

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestErr checks that Err and WaitForSync return the error of a forbidden LIST, and that Err
// returns nil after the LIST has succeeded. The informer is the wrapper that a factory returns.
func TestErr(t *testing.T) {
	t.Parallel()
	faults := &apiserver.Faults{}
	server := serve(t, apiserver.Options{Pods: 3, Faults: faults})
	remove := faults.Add(apiserver.Rule{
		Match: apiserver.Match("list", "pods"),
		Err:   apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no")),
	})
	factory := NewSharedInformerFactory(kubernetes.NewForConfigOrDie(server.Config()), 0)
	inf := factory.Core().V1().Pods().Informer()
	if err := Err(inf); err != nil {
		t.Errorf("before the start: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer factory.Shutdown()
	defer cancel()
	factory.Start(ctx.Done())
	long, end := context.WithTimeout(ctx, waitTimeout)
	defer end()
	i, err := informerOf(inf)
	check.NoError(t, err)
	if err := i.engine.WaitFor(long, func() bool { return Err(inf) != nil }); err != nil {
		t.Fatalf("no error is reported: %v", err)
	}
	short, end := context.WithTimeout(ctx, 50*time.Millisecond)
	defer end()
	err = WaitForSync(short, inf, factory.Core().V1().Nodes().Informer())
	if !errors.Is(err, reflector.ErrForbidden) || !apierrors.IsForbidden(Err(inf)) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the wait says %v, Err %v", err, Err(inf))
	}
	remove()
	if err := WaitForSync(long, inf); err != nil || !inf.HasSynced() {
		t.Errorf("the wait says %v, HasSynced %v", err, inf.HasSynced())
	}
	if err := i.engine.WaitFor(long, func() bool { return Err(inf) == nil }); err != nil {
		t.Errorf("Err stays %v: %v", Err(inf), err)
	}
}

// TestErrOfOthers checks that Err and WaitForSync return ErrForeignInformer for informers of other
// packages, and that WaitForSync returns immediately for an informer that has stopped.
func TestErrOfOthers(t *testing.T) {
	theirs := cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, nil)
	if err := Err(theirs); !errors.Is(err, ErrForeignInformer) || errors.Is(err, ErrLayout) {
		t.Errorf("client-go's: %v", err)
	}
	check.ErrorIs(t, Err(nil), ErrForeignInformer, "nil")
	check.ErrorIs(t, WaitForSync(t.Context(), theirs), ErrForeignInformer, "waiting for client-go's")
	if err := WaitForSync(t.Context()); err != nil {
		t.Errorf("waiting for nothing: %v", err)
	}
	stopped := NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, nil)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	stopped.RunWithContext(over)
	if err := WaitForSync(t.Context(), stopped); err == nil {
		t.Error("synced though it never ran")
	}
}

// wrapperByValue is a wrapper that cannot be the key of a map.
type wrapperByValue struct {
	cache.SharedIndexInformer
	names []string
}

// asking is a wrapper whose methods call Err.
type asking struct{ cache.SharedIndexInformer }

func (a asking) GetStore() cache.Store {
	_ = Err(a.SharedIndexInformer)
	return a.SharedIndexInformer.GetStore()
}

func (a asking) IsStopped() bool {
	_ = Err(a.SharedIndexInformer)
	return a.SharedIndexInformer.IsStopped()
}

// TestErrOfWrappers checks that Err reports a shard that cannot apply for each sort of wrapper, and
// only for the wrapper's informer, until that has stopped.
func TestErrOfWrappers(t *testing.T) {
	resetOff(t)
	sharded := Options{Shard: weir.Shard{Index: 1, Count: 2}}
	theirs := func() cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, nil)
	}
	var fake struct{ cache.SharedIndexInformer } // its methods panic
	all := []cache.SharedIndexInformer{wrapperByValue{theirs(), nil}, foreign{theirs()}, asking{theirs()}}
	for _, inf := range append(all, nil, fake) {
		check.Equal(t, AdoptWithOptions(inf, sharded) == nil, inf == nil)
	}
	for _, inf := range all {
		if err := Err(inf); !errors.Is(err, ErrForeignInformer) || !strings.Contains(err.Error(), "all shards") {
			t.Errorf("%T: %v", inf, err)
		}
	}
	for _, inf := range []cache.SharedIndexInformer{theirs(), nil, fake} {
		if err := Err(inf); !errors.Is(err, ErrForeignInformer) || strings.Contains(err.Error(), "shards") {
			t.Errorf("%T: %v", inf, err)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	all[1].RunWithContext(over)
	AdoptWithOptions(foreign{theirs()}, sharded)
	check.Equal(t, strings.Contains(Err(all[1]).Error(), "shards"), false, "reported after the informer has stopped")
}
