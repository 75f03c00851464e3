package informers

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// extracted is a cache of pods as some programs implement it, with a LIST and a WATCH. It stores
// the objects that meta.ExtractList returns, which are pointers into the array of the list. Older
// versions of client-go's reflector did the same; newer ones copy the objects (kubernetes issue
// 111370).
type extracted struct {
	client   kubernetes.Interface
	store    cache.Store
	handlers []handler
	cancel   context.CancelFunc
	synced   chan struct{}
	ended    chan error
	version  string // of the list
}

func newExtracted(cfg *rest.Config) *extracted {
	return &extracted{
		client: figures.Must(kubernetes.NewForConfig(inProtobuf(cfg))), store: cache.NewStore(cache.MetaNamespaceKeyFunc), synced: make(chan struct{}), ended: make(chan error, 1),
	}
}

func (e *extracted) handle(_ time.Duration, h handler) error {
	e.handlers = append(e.handlers, h)
	return nil
}

func (e *extracted) run(ctx context.Context) {
	ctx, e.cancel = context.WithCancel(ctx)
	go func() { e.ended <- figures.Attempt(func() { e.follow(ctx) }) }()
}

// follow LISTs the pods and WATCHes them until ctx or the WATCH ends.
func (e *extracted) follow(ctx context.Context) {
	e.fill(ctx)
	close(e.synced)
	w := figures.Must(e.client.CoreV1().Pods(corev1.NamespaceAll).Watch(ctx, metav1.ListOptions{ResourceVersion: e.version}))
	context.AfterFunc(ctx, w.Stop)
	for event := range w.ResultChan() {
		figures.Check(e.apply(event))
	}
}

// fill LISTs the pods and stores them. Afterwards the list is garbage, but the array of its items
// is not.
func (e *extracted) fill(ctx context.Context) {
	list := figures.Must(e.client.CoreV1().Pods(corev1.NamespaceAll).List(ctx, metav1.ListOptions{ResourceVersion: "0"}))
	e.version = list.ResourceVersion
	for _, object := range figures.Must(meta.ExtractList(list)) {
		figures.Check(e.store.Add(object))
		e.tell(added, object)
	}
}

func (e *extracted) apply(event watch.Event) error {
	switch event.Type {
	case watch.Added, watch.Modified:
		e.tell(updated, event.Object)
		return e.store.Update(event.Object)
	case watch.Deleted:
		e.tell(deleted, event.Object)
		return e.store.Delete(event.Object)
	}
	return nil
}

func (e *extracted) tell(kind eventKind, object any) {
	key, err := cache.MetaNamespaceKeyFunc(object)
	if err != nil {
		return
	}
	for _, h := range e.handlers {
		h(kind, key)
	}
}

func (e *extracted) waitSync(ctx context.Context) error {
	select {
	case <-e.synced:
		return nil
	case err := <-e.ended:
		e.ended <- err
		return fmt.Errorf("the cache made by hand has ended: %w", err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *extracted) stop() error {
	e.cancel()
	return <-e.ended
}

func (e *extracted) len() int { return len(e.store.ListKeys()) }

func (e *extracted) resourceVersion() string { return e.version }
