package clientgo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/weirproject/weir/internal/core/engine"
	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/source"
)

// Shadow is the value of Options.Shadow: which of two informers runs as a shadow of the other.
type Shadow uint8

const (
	// NoShadow runs one informer, of this package. It is the default.
	NoShadow Shadow = iota
	// ShadowWeir serves the program with client-go's informer. Its shadow is an informer of this
	// package.
	ShadowWeir
	// ShadowClientGo serves the program with an informer of this package. Its shadow is client-go's
	// informer.
	ShadowClientGo
)

// ErrShadow is returned by Err for an informer with Options.Shadow after the informer and its
// shadow have differed. The error says how often, what the last difference was, and what was
// compared. It does not mean that the informer lacks changes.
var ErrShadow = errors.New("clientgo: the informer and its shadow differ")

// shadowed is an informer that serves the program, and its shadow. The methods of the embedded
// informer that the type does not replace concern only this informer: HasSynced, the indexer and
// the watch error handler, for example.
type shadowed struct {
	upstreamInformer // the serving informer
	variants
	shadow  cache.SharedIndexInformer
	weir    *informer // one of the two
	serving side
	counts  *engine.Comparison
	// explained is the number of versions whose content differs; see maxExplained.
	explained atomic.Int64

	mu sync.Mutex
	// pairs contains the compared handlers by the registration that the program has.
	pairs map[cache.ResourceEventHandlerRegistration]*[2]*observer
	log   transformLog
	last  string // the last difference
}

// newShadowed returns an informer with a shadow. inf is client-go's informer, which was built from
// p. If it is the shadow, it has no indexers, because index functions need not be safe for
// concurrent use.
func newShadowed(inf cache.SharedIndexInformer, p informerFields, description string, opts Options) *shadowed {
	s := &shadowed{pairs: map[cache.ResourceEventHandlerRegistration]*[2]*observer{}}
	s.variants.of = s
	if opts.Shadow == ShadowWeir {
		p.indexers, p.transform, p.onError, p.published = nil, guarded(p.transform), nil, nil
	}
	s.weir = p.replacement(inf, description, opts)
	s.weir.shadowed, s.counts = s, s.weir.engine.Comparison()
	if opts.Shadow == ShadowWeir {
		s.SharedIndexInformer, s.shadow, s.serving = inf, s.weir, clientGoSide
	} else {
		s.SharedIndexInformer, s.shadow = s.weir, inf
		_ = inf.SetTransform(guarded(p.transform)) // no error: it has not started
		_ = inf.SetWatchErrorHandlerWithContext(cache.DefaultWatchErrorHandler)
	}
	// This cannot fail, because the informers have not stopped.
	_, _ = s.AddEventHandlerWithOptions(nil, cache.HandlerOptions{ResyncPeriod: new(time.Duration)})
	return s
}

// guarded returns a transform for a shadow. It passes a copy to the program's transform, because a
// fake ListerWatcher may return the same object to both informers, and it turns a panic into an
// error.
func guarded(transform cache.TransformFunc) cache.TransformFunc {
	if transform == nil {
		return nil
	}
	return func(obj any) (changed any, err error) {
		defer func() {
			if v := recover(); v != nil {
				changed, err = nil, fmt.Errorf("%w: %v", source.ErrPanicked, v)
			}
		}()
		if o, ok := obj.(runtime.Object); ok {
			obj = o.DeepCopyObject()
		}
		return transform(obj)
	}
}

// RunWithContext runs both informers until ctx ends, and waits until both have stopped.
func (s *shadowed) RunWithContext(ctx context.Context) {
	var others sync.WaitGroup
	defer others.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	others.Go(func() { s.shadow.RunWithContext(ctx) })
	others.Go(func() { s.judge(ctx) })
	s.SharedIndexInformer.RunWithContext(ctx)
}

// GetController returns the serving informer's controller.
func (s *shadowed) GetController() cache.Controller { return controllerOf(s, &s.upstreamInformer) }

// SetTransform sets the transform of both informers.
func (s *shadowed) SetTransform(transform cache.TransformFunc) error {
	return errors.Join(s.SharedIndexInformer.SetTransform(transform), s.shadow.SetTransform(guarded(transform)))
}

// AddEventHandlerWithOptions adds a handler to the serving informer, and a handler that only
// records what it receives to the shadow. If handler is nil, it adds two handlers that also compare
// the content of all versions. The first objects of a handler that is added after the start are
// those that each of the two informers stores at that time; see comparison.difference.
func (s *shadowed) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	c, p, name := newComparison(s.counts), &[2]*observer{}, "shadow"
	none, content := cache.ResourceEventHandlerFuncs{}, handler == nil
	if content {
		handler = none
	} else {
		name = handlerName(handler)
	}
	a, b := s.SharedIndexInformer, s.shadow
	serving := &observer{side: s.serving, of: s, inf: a, other: b, comparison: c, name: name, content: content, next: handler}
	shadow := &observer{side: 1 - s.serving, of: s, inf: b, other: a, comparison: c, name: name, content: content, next: none}
	p[serving.side], p[shadow.side] = serving, shadow
	var err error
	if shadow.registration, err = s.shadow.AddEventHandlerWithOptions(shadow, cache.HandlerOptions{ResyncPeriod: new(time.Duration)}); err != nil {
		// The shadow has stopped.
		return s.SharedIndexInformer.AddEventHandlerWithOptions(handler, options)
	}
	if serving.registration, err = s.SharedIndexInformer.AddEventHandlerWithOptions(serving, options); err != nil {
		_ = s.shadow.RemoveEventHandler(shadow.registration) // the registration is the shadow's
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pairs[serving.registration] = p
	return serving.registration, nil
}

// RemoveEventHandler removes a handler, and the shadow's handler that it is compared with.
func (s *shadowed) RemoveEventHandler(reg cache.ResourceEventHandlerRegistration) error {
	s.mu.Lock()
	p := s.pairs[reg]
	delete(s.pairs, reg)
	s.mu.Unlock()
	if p != nil {
		_ = s.shadow.RemoveEventHandler(p[1-s.serving].registration) // the registration is the shadow's
	}
	return s.SharedIndexInformer.RemoveEventHandler(reg)
}

// judge compares what the handlers have received until ctx ends. Every hour and at the end, it logs
// what was compared.
func (s *shadowed) judge(ctx context.Context) {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "informer", s.weir.name)
	ticker := time.NewTicker(judgeEvery)
	defer ticker.Stop()
	for n := 1; ctx.Err() == nil; n++ {
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
		s.mu.Lock()
		pairs := slices.Collect(maps.Values(s.pairs)) // informers may call the program: not under mu
		s.mu.Unlock()
		for _, p := range pairs {
			p[0].comparison.judge(time.Now(), [2]progress{p[0].progress(), p[1].progress()}, func(key, kind string, of side, k *openKey) {
				s.report(logger, p[0].name, key, kind, of, k)
			})
		}
		if n%int(time.Hour/judgeEvery) == 0 || ctx.Err() != nil {
			logger.Info("Compared an informer with its shadow", "evidence", s.counts.String())
		}
	}
}

// report records a difference, and logs it unless another one was logged in the last minute.
func (s *shadowed) report(logger klog.Logger, handler, key, kind string, of side, k *openKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = fmt.Sprintf("%s of %s: %s at %d, %s at %d, handler %s, fields %q", kind, key, of, k.last[of].at.resourceVersion(), 1-of, k.last[1-of].at.resourceVersion(), handler, k.fields)
	if log, silent := s.log.next(); log {
		logger.Error(ErrShadow, "An informer and its shadow differ", "key", key, "difference", kind, "of", of.String(), "fields", k.fields,
			"last", s.last, "notLogged", silent, "evidence", s.counts.String())
	}
}

// err returns an error that wraps ErrShadow if there was a difference.
func (s *shadowed) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == "" {
		return nil
	}
	return fmt.Errorf("%w: %s; the last: %s", ErrShadow, s.counts, s.last)
}

// observer is a handler that passes what it receives to a comparison, and then to another handler:
// the program's, or one that does nothing. A panic of the comparison does not reach the informer.
type observer struct {
	side         side
	of           *shadowed
	inf, other   cache.SharedIndexInformer // the observed informer, and the one of the other side
	comparison   *comparison
	registration cache.ResourceEventHandlerRegistration
	name         string
	content      bool // compare the content of versions
	next         cache.ResourceEventHandler
	calling      atomic.Bool
}

func (o *observer) progress() progress {
	p, inf := progress{idle: !o.calling.Load()}, o.inf
	if inf.HasSynced() && o.registration.HasSynced() {
		p.reached = resourceversion.Number(inf.LastSyncResourceVersion())
	}
	return p
}

func (o *observer) OnAdd(obj any, initial bool) {
	o.observe(obj, false, func() { o.next.OnAdd(obj, initial) })
}

func (o *observer) OnUpdate(was, is any) { o.observe(is, false, func() { o.next.OnUpdate(was, is) }) }

func (o *observer) OnDelete(obj any) { o.observe(obj, true, func() { o.next.OnDelete(obj) }) }

func (o *observer) observe(obj any, deleted bool, next func()) {
	o.calling.Store(true)
	defer o.calling.Store(false)
	if !o.compare(obj, deleted) {
		o.of.counts.Unjudged.Add(1)
	}
	next()
}

// compare passes a version to the comparison. It returns false if the version, or its content,
// cannot be compared.
func (o *observer) compare(obj any, deleted bool) (ok bool) {
	defer func() { ok = recover() == nil && ok }() // methods of the program's types may panic
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if tombstone, is := obj.(cache.DeletedFinalStateUnknown); is {
		obj = tombstone.Obj
	}
	v := sighting{seen: time.Now()}
	m, e := meta.Accessor(obj)
	if err == nil && e == nil && resourceversion.IsInteger(m.GetResourceVersion()) {
		v.at = position(resourceversion.Number(m.GetResourceVersion()) << 1)
	} else if err != nil || !deleted {
		return false
	}
	if deleted {
		v.at |= 1
	} else if o.content {
		v.hash = contentHash(o.comparison.seed, obj)
	}
	o.comparison.observe(o.side, key, v, func() []string { return o.fields(key, obj, m.GetResourceVersion()) })
	return v.hash != 0 || deleted || !o.content
}

// contentHash returns a hash of an object's content, or 0 if the object cannot be encoded. It does
// not distinguish nil from empty fields that the encoding omits.
func contentHash(seed maphash.Seed, obj any) uint64 {
	encode := func() ([]byte, error) { return json.Marshal(obj) }
	if m, ok := obj.(interface{ Marshal() ([]byte, error) }); ok {
		encode = m.Marshal
	}
	raw, err := encode()
	if err != nil {
		return 0
	}
	return max(1, maphash.Bytes(seed, raw))
}

// maxExplained limits the versions for which fields returns paths, so that an informer all of whose
// objects differ costs little.
const maxExplained = 1000

// fields returns the paths of the fields in which an object differs from the version that the other
// side stores, at most 8. They contain no values. The result is nil if the other side stores
// another version.
func (o *observer) fields(key string, obj any, rv string) (paths []string) {
	other, _, err := o.other.GetStore().GetByKey(key)
	m, e := meta.Accessor(other)
	if err != nil || e != nil || m.GetResourceVersion() != rv || o.of.explained.Add(1) > maxExplained {
		return nil
	}
	was, err := runtime.DefaultUnstructuredConverter.ToUnstructured(other)
	is, e := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil || e != nil {
		return nil
	}
	for _, change := range humanize.Diff(was, is, humanize.DiffOptions{}) {
		paths = append(paths, change.Path)
	}
	return paths[:min(8, len(paths))]
}
