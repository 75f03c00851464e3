package storage

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/client-go/rest"
)

// watches are those that suites have begun, some of which they never stop.
type watches struct {
	ctx     context.Context // ends them
	running sync.WaitGroup
}

// begun is a WATCH of client-go's whose events are kept for a suite that reads them late, also
// after Stop, as storage does.
type begun struct {
	results chan watch.Event
	stop    context.CancelFunc
}

// maxKept is how many events are kept; a suite that reads none blocks its watch.
const maxKept = 100

// begin starts a WATCH. It ends with ctx, the suite, or when it is stopped.
func (ws *watches) begin(ctx context.Context, req *rest.Request) (watch.Interface, error) {
	w := &begun{results: make(chan watch.Event, maxKept)}
	own, cancel := context.WithCancel(ctx)
	release := context.AfterFunc(ws.ctx, cancel)
	w.stop = func() {
		release()
		cancel()
	}
	from, err := req.Watch(own)
	if err != nil && ctx.Err() != nil { // a client that has disconnected receives no error
		w.stop()
		close(w.results)
		return w, nil
	}
	if err != nil {
		w.stop()
		return nil, err
	}
	utilflowcontrol.WatchInitialized(ctx)
	ws.running.Go(func() { w.pass(own, from) })
	return w, nil
}

// pass passes events on until there are no more.
func (w *begun) pass(ctx context.Context, from watch.Interface) {
	defer close(w.results)
	defer w.stop()
	defer from.Stop()
	for {
		select {
		case e, ok := <-from.ResultChan():
			if !ok || ctx.Err() != nil {
				return
			}
			select {
			case w.results <- inner(e):
			case <-ctx.Done():
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// inner is an event as the suites know it.
func inner(e watch.Event) watch.Event {
	object, err := internal(e.Object)
	if err != nil {
		status := apierrors.NewInternalError(err).Status()
		return watch.Event{Type: watch.Error, Object: &status}
	}
	return watch.Event{Type: e.Type, Object: object}
}

// ResultChan is watch.Interface's.
func (w *begun) ResultChan() <-chan watch.Event { return w.results }

// Stop is watch.Interface's.
func (w *begun) Stop() { w.stop() }
