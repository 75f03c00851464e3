package informers

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"

	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// weirInformer is weir's informer of one kind.
type weirInformer[T weir.Object] struct {
	*weir.Informer[T]
	handlers []*weir.Registration
	cancel   context.CancelFunc
	ended    chan error
}

func newWeir[T weir.Object](cfg *rest.Config, s *spec, gvr schema.GroupVersionResource) informer {
	o := weir.Options{Resource: gvr, Server: s.server}
	if s.Transform {
		o.DropFields = []string{"metadata.managedFields"} // weir's option instead of a transform
	}
	return &weirInformer[T]{Informer: figures.Must(weir.NewInformer[T](cfg, o))}
}

func (w *weirInformer[T]) index(name string, byFunc bool) error {
	if !byFunc {
		return w.AddIndex(name, weir.ByLabel(appLabel))
	}
	return w.AddIndex(name, weir.ByFunc(func(object T) ([]string, error) { return []string{object.GetLabels()[appLabel]}, nil }))
}

var kindOf = map[weir.EventType]eventKind{
	weir.Added: added, weir.Updated: updated, weir.Deleted: deleted, weir.Resynced: resynced,
}

func (w *weirInformer[T]) handle(resync time.Duration, h handler) error {
	r, err := w.Handle(func(_ context.Context, e weir.Event[T]) {
		h(kindOf[e.Type], e.Key())
	}, weir.HandlerOptions[T]{Resync: resync})
	w.handlers = append(w.handlers, r)
	return err
}

func (w *weirInformer[T]) run(ctx context.Context) {
	ctx, w.cancel = context.WithCancel(ctx)
	w.ended = make(chan error, 1)
	go func() { w.ended <- w.Run(ctx) }()
}

func (w *weirInformer[T]) waitSync(ctx context.Context) error {
	for _, h := range w.handlers {
		if err := h.WaitForSync(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *weirInformer[T]) stop() error {
	w.cancel()
	return <-w.ended
}

func (w *weirInformer[T]) len() int { return w.Len() }

func (w *weirInformer[T]) resourceVersion() string { return w.Stats().ResourceVersion }

func (w *weirInformer[T]) get(key string) error {
	_, err := w.Get(key)
	if errors.Is(err, weir.ErrNotFound) {
		return nil
	}
	return err
}

func (w *weirInformer[T]) list() (int, error) { return count(w.All()) }

func (w *weirInformer[T]) by(index, value string) (int, error) { return count(w.By(index, value)) }

func count[T any](objects func(func(T, error) bool)) (n int, err error) {
	for _, e := range objects {
		if e != nil {
			return n, e
		}
		n++
	}
	return n, nil
}

func (w *weirInformer[T]) pick(n int) (keys, values []string, err error) {
	snapshot := w.Snapshot()
	wanted := spread(n, snapshot.Len())
	at := 0
	for item := range snapshot.Items() {
		if len(wanted) == 0 {
			break
		}
		if at == wanted[0] {
			app, _ := item.Label(appLabel)
			keys, values = append(keys, item.Key()), append(values, app)
			wanted = wanted[1:]
		}
		at++
	}
	return keys, values, nil
}
