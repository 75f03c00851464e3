package clientgo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/diff"

	"github.com/weirproject/weir/store"
)

const (
	detectEvery = time.Second
	detectFor   = 2 * time.Minute
)

// detector finds out who changes what is shared. It keeps each value that was handed out, and a copy, for two minutes:
// its bound is what is read in that time.
type detector struct {
	mu   sync.Mutex
	seen map[any]*handedOut // by value, which is a pointer; nil once run has ended
	fail func(key, what string)
}

type handedOut struct {
	key   string
	copy  any
	until time.Time
}

func newDetector() *detector {
	return &detector{seen: map[any]*handedOut{}, fail: func(key, what string) {
		panic(fmt.Sprintf("weir: shared object %s was changed: %s", key, what))
	}}
}

// add takes a value that is about to be handed out.
func (d *detector) add(o *store.Object, value any) {
	object, ok := value.(runtime.Object)
	if !ok {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.seen[value]; !ok && d.seen != nil {
		d.seen[value] = &handedOut{o.Key(), object.DeepCopyObject(), time.Now().Add(detectFor)}
	}
}

// run compares until the context ends, and a last time then.
func (d *detector) run(ctx context.Context) {
	ticker := time.NewTicker(detectEvery)
	defer ticker.Stop()
	for {
		d.compare()
		select {
		case <-ctx.Done():
			d.compare()
			d.mu.Lock()
			d.seen = nil
			d.mu.Unlock()
			return
		case <-ticker.C:
		}
	}
}

func (d *detector) compare() {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for value, was := range d.seen {
		if !equality.Semantic.DeepEqual(value, was.copy) {
			d.fail(was.key, diff.Diff(was.copy, value))
		}
		if now.After(was.until) {
			delete(d.seen, value)
		}
	}
}
