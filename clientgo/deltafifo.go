package clientgo

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
)

// DeltaFIFO replaces client-go's DeltaFIFO or RealFIFO as the Queue of a cache.Config that is
// passed to New. It contains only what the program itself adds: the Controller calls Process for
// each object when the object arrives, also during the first list, and reads the next object after
// Process has returned. So neither the first list nor events that wait for a slow Process are in
// memory, except for the buffers of one connection. If the server closes the watch because Process
// is slow, the Controller resumes the watch, or lists if the server no longer has the events.
// Process must therefore not wait for a later event.
//
// Process receives cache.Deltas with one Delta. isInInitialList is true until Process has received
// the whole first list. As with client-go, the objects of a list have the type Replaced, or Sync
// without EmitDeltaTypeReplaced. After the first list, Process receives a Deleted with a
// cache.DeletedFinalStateUnknown for each of the KnownObjects that the list lacks. In a relist,
// which is in memory as with client-go, Process receives these deletions first. A Resync passes
// each of the KnownObjects as a Sync. Without KnownObjects, the Controller stores the keys of the
// objects, to find the deletions, and does not resync. Calls of Process do not overlap. Errors of
// Process have no effect, as with client-go. If Process panics and utilruntime.ReallyCrash is
// false, the next call follows after a second. Process also receives what the program itself adds
// to the DeltaFIFO, before or after New.
//
// HasSynced is true after Process has received the first list. Passed to client-go's cache.New, the
// queue is client-go's DeltaFIFO.
type DeltaFIFO struct {
	*cache.DeltaFIFO
	options cache.DeltaFIFOOptions
	real    bool // as client-go's RealFIFO, it passes deletions of unknown objects to Process
}

// NewDeltaFIFOWithOptions replaces client-go's function of the same name. The options have
// client-go's meaning.
func NewDeltaFIFOWithOptions(opts cache.DeltaFIFOOptions) *DeltaFIFO {
	return &DeltaFIFO{DeltaFIFO: cache.NewDeltaFIFOWithOptions(opts), options: opts}
}

// NewDeltaFIFO replaces client-go's function of the same name.
func NewDeltaFIFO(keyFunc cache.KeyFunc, known cache.KeyListerGetter) *DeltaFIFO {
	return NewDeltaFIFOWithOptions(cache.DeltaFIFOOptions{KeyFunction: keyFunc, KnownObjects: known})
}

// NewRealFIFO replaces client-go's function of the same name. transform may be nil.
func NewRealFIFO(keyFunc cache.KeyFunc, known cache.KeyListerGetter, transform cache.TransformFunc) *DeltaFIFO {
	f := NewDeltaFIFOWithOptions(cache.DeltaFIFOOptions{
		KeyFunction: keyFunc, KnownObjects: known, Transformer: transform, EmitDeltaTypeReplaced: true,
	})
	f.real = true
	return f
}

// processor is a StreamingStore that passes each object to a process function.
type processor struct {
	fifo    *DeltaFIFO
	process cache.ProcessFunc
	context context.Context // of Run
	// mu is locked during calls of process. It guards the fields below.
	mu     sync.Mutex
	keys   map[string]struct{} // of the objects that process has received; only without KnownObjects
	listed map[string]struct{} // the keys of the current list
	synced bool
}

func (p *processor) Add(obj any) error    { return p.receive(cache.Added, obj) }
func (p *processor) Update(obj any) error { return p.receive(cache.Updated, obj) }

// Delete ignores an object that is unknown, because a list has already reported its deletion.
func (p *processor) Delete(obj any) error {
	key, err := p.fifo.KeyOf(obj)
	if err != nil {
		return cache.KeyError{Obj: obj, Err: err}
	}
	p.mu.Lock()
	_, exists := p.keys[key]
	p.mu.Unlock()
	if known := p.fifo.options.KnownObjects; known != nil {
		_, exists, err = known.GetByKey(key)
		exists = exists || err != nil
	}
	if !exists && !p.fifo.real {
		return nil
	}
	return p.receive(cache.Deleted, obj)
}

// receive transforms an object from the server and delivers it.
func (p *processor) receive(t cache.DeltaType, obj any) error {
	key, obj, err := p.transformed(obj)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deliver(key, t, obj)
}

// transformed returns an object's key and the result of the transform. It does not transform a
// tombstone.
func (p *processor) transformed(obj any) (key string, changed any, err error) {
	if key, err = p.fifo.KeyOf(obj); err != nil {
		return "", nil, cache.KeyError{Obj: obj, Err: err}
	}
	_, tombstone := obj.(cache.DeletedFinalStateUnknown)
	if transform := p.fifo.options.Transformer; transform != nil && !tombstone {
		obj, err = transform(obj)
	}
	return key, obj, err
}

// deliver calls process. It returns an error if the context has ended. The caller holds mu.
func (p *processor) deliver(key string, t cache.DeltaType, obj any) error {
	if p.context.Err() != nil {
		return context.Cause(p.context)
	}
	if p.fifo.options.KnownObjects == nil {
		if p.keys[key] = struct{}{}; t == cache.Deleted {
			delete(p.keys, key)
		}
	}
	if !p.call(cache.Deltas{{Type: t, Object: obj}}, !p.synced) {
		pause(p.context, time.Second)
	}
	return nil
}

// call calls process and ignores its error, as client-go does. It returns false if process
// panicked.
func (p *processor) call(deltas cache.Deltas, isInInitialList bool) (returned bool) {
	defer utilruntime.HandleCrashWithContext(p.context)
	_ = p.process(deltas, isInInitialList)
	return true
}

// popAll passes to process what the program itself adds to the FIFO, until the FIFO is closed. It
// does not hold mu while it waits.
func (p *processor) popAll() {
	for {
		var isInInitialList bool
		deltas, err := p.fifo.Pop(func(_ any, initial bool) error { isInInitialList = initial; return nil })
		if err != nil || p.context.Err() != nil {
			return
		}
		p.mu.Lock()
		if !p.call(deltas.(cache.Deltas), isInInitialList) {
			pause(p.context, time.Second)
		}
		p.mu.Unlock()
	}
}

func (p *processor) listType() cache.DeltaType {
	if p.fifo.options.EmitDeltaTypeReplaced {
		return cache.Replaced
	}
	return cache.Sync
}

// BeginList implements StreamingStore.
func (p *processor) BeginList() { p.listed = map[string]struct{}{} }

// AddListed implements StreamingStore.
func (p *processor) AddListed(obj any) error {
	key, obj, err := p.transformed(obj)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listed[key] = struct{}{}
	return p.deliver(key, p.listType(), obj)
}

// EndList implements StreamingStore.
func (p *processor) EndList(string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.deleteUnlisted(); err != nil {
		return err
	}
	p.listed, p.synced = nil, true
	markSynced(p.fifo.DeltaFIFO)
	return nil
}

// Replace delivers a relist. It delivers nothing if the transform of an object fails.
func (p *processor) Replace(list []any, _ string) error {
	p.listed = map[string]struct{}{}
	keys := make([]string, len(list))
	for i := range list {
		var err error
		if keys[i], list[i], err = p.transformed(list[i]); err != nil {
			return err
		}
		p.listed[keys[i]] = struct{}{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.deleteUnlisted()
	p.listed = nil
	for i := 0; i < len(list) && err == nil; i++ {
		err = p.deliver(keys[i], p.listType(), list[i])
		list[i] = nil
	}
	return err
}

// deleteUnlisted delivers the deletion of each known object that is not in listed. The caller holds
// mu.
func (p *processor) deleteUnlisted() error {
	known, keys := p.fifo.options.KnownObjects, slices.Collect(maps.Keys(p.keys))
	if known != nil {
		keys = known.ListKeys()
	}
	for _, key := range keys {
		if _, listed := p.listed[key]; listed {
			continue
		}
		var last any
		if known != nil {
			last, _, _ = known.GetByKey(key) // nil after an error, as with client-go
		}
		if err := p.deliver(key, cache.Deleted, cache.DeletedFinalStateUnknown{Key: key, Obj: last}); err != nil {
			return err
		}
	}
	return nil
}

// Resync delivers each known object.
func (p *processor) Resync() error {
	known := p.fifo.options.KnownObjects
	if known == nil {
		return nil
	}
	for _, key := range known.ListKeys() {
		p.mu.Lock()
		obj, exists, err := known.GetByKey(key)
		if err == nil && exists {
			err = p.deliver(key, cache.Sync, obj)
		}
		p.mu.Unlock()
		if p.context.Err() != nil {
			return err
		}
	}
	return nil
}
