package storage

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	apistorage "k8s.io/apiserver/pkg/storage"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/serve/watchcache"
)

// feed copies the objects of kube-apiserver's store on etcd into a store.Store, and is the
// watchcache.Clock of that store. It is current up to the last revision that etcd has reported: by
// a change, or by a progress notification that Wait has requested.
type feed struct {
	source   apistorage.Interface
	encoding wire.Encoding
	store    *store.Store
	history  *watchcache.History
	writer   *store.Writer // used only by list and watch

	mu       sync.Mutex
	now      uint64
	advanced chan struct{} // closed by each call of advanceLocked
}

func newFeed(source apistorage.Interface, enc wire.Encoding) *feed {
	f := &feed{source: source, encoding: enc, advanced: make(chan struct{})}
	f.store = store.New(store.Config{Encoding: enc, KeepLog: true})
	f.writer = f.store.Writer(store.Scope{})
	f.history = watchcache.NewHistory(0, 0, 0)
	return f
}

// askAgain is the time between two requests for etcd's progress while Wait waits. Wait repeats the
// request because etcd does not answer it while one of its watches lags.
const askAgain = 100 * time.Millisecond

// errEnded is returned when etcd ends a watch that was not cancelled.
var errEnded = errors.New("the watch on etcd has ended")

// list reads the initial state from kube-apiserver's store.
func (f *feed) list(ctx context.Context) error {
	var pods example.PodList
	opts := apistorage.ListOptions{Predicate: apistorage.Everything, Recursive: true}
	if err := f.source.GetList(ctx, resourcePrefix, opts, &pods); err != nil {
		return err
	}
	f.writer.BeginReplace(false)
	for i := range pods.Items {
		if err := f.write(&pods.Items[i], f.writer.Put); err != nil {
			return err
		}
	}
	f.writer.EndReplace(pods.ResourceVersion)
	rv, err := strconv.ParseUint(pods.ResourceVersion, 10, 64)
	f.history.Reset(rv, f.store.Revision())
	f.advance(rv)
	return err
}

// watch writes changes to the store until ctx ends. It returns an error if the watch ends earlier.
func (f *feed) watch(ctx context.Context) error {
	opts := apistorage.ListOptions{ResourceVersion: f.store.ResourceVersion(), Predicate: apistorage.Everything, Recursive: true, ProgressNotify: true}
	w, err := f.source.Watch(ctx, resourcePrefix, opts)
	if err != nil {
		return err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if err := f.take(e); err != nil {
			return err
		}
	}
	if ctx.Err() == nil {
		return errEnded
	}
	return nil
}

// take applies an event to the store, and advances the clock. It holds the lock during both, so
// that Observe sees them as one step.
func (f *feed) take(e watch.Event) error {
	m, err := meta.Accessor(e.Object)
	if err != nil {
		return fmt.Errorf("%s of a %T: %v", e.Type, e.Object, e.Object)
	}
	rv, err := strconv.ParseUint(m.GetResourceVersion(), 10, 64)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch e.Type {
	case watch.Added, watch.Modified:
		err = f.write(e.Object, f.writer.Put)
	case watch.Deleted:
		err = f.write(e.Object, f.writer.Delete)
	}
	if err != nil {
		return err
	}
	f.writer.Progress(m.GetResourceVersion())
	f.writer.Flush()
	f.history.Add(rv, f.store.Revision())
	f.advanceLocked(rv)
	return nil
}

func (f *feed) write(object runtime.Object, do func(*wire.Meta, []byte) error) error {
	raw, err := encodePod(f.encoding, object)
	if err != nil {
		return err
	}
	var m wire.Meta
	if err := wire.ReadMeta(f.encoding, raw, &m); err != nil {
		return err
	}
	return do(&m, raw)
}

func (f *feed) advance(rv uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.advanceLocked(rv)
}

func (f *feed) advanceLocked(rv uint64) {
	f.now = max(f.now, rv)
	close(f.advanced)
	f.advanced = make(chan struct{})
}

// Observe implements watchcache.Clock.
func (f *feed) Observe(fn func(resourceVersion uint64)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn(f.now)
}

// Wait implements watchcache.Clock. It requests etcd's progress while it waits.
func (f *feed) Wait(ctx context.Context, resourceVersion uint64) error {
	ticker := time.NewTicker(askAgain)
	defer ticker.Stop()
	for {
		f.mu.Lock()
		now, advanced := f.now, f.advanced
		f.mu.Unlock()
		if now >= resourceVersion {
			return nil
		}
		if err := f.source.RequestWatchProgress(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-advanced:
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
