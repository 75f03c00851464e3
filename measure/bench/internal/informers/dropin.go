package informers

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/weirproject/weir/measure/bench/internal/figures"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	listers "k8s.io/client-go/listers/core/v1"
)

// DropIn returns the verb for the drop-in instead of weir's own informer. The drop-in and client-go
// then run with the same code, through client-go's interfaces, and the handlers read the objects.
// The verb read then measures listers. Every other verb measures the same as for weir's own
// informer.
func (v Verb) DropIn() Verb {
	if v.Name != "read" {
		return v
	}
	v.Short = "Reading objects through a lister: a single object, random objects, and all objects"
	v.Duration = 30 * time.Second
	v.measure = measureListers
	v.figures = []figures.Figure{
		figures.Lower("getHeapBytes", "heap after GC, during random Gets", figures.Bytes),
		figures.Lower("getPackedNanos", "first Get of an object", figures.Nanos),
		figures.Lower("getNanos", "Get of a random key", figures.Nanos),
		figures.New("getsPerSecond", "Gets a second", figures.Count),
		figures.Lower("listFirstNanos", "first List of all objects", figures.Nanos),
		figures.Lower("listNanos", "repeated List of all objects", figures.Nanos),
		figures.Lower("listHeapBytes", "heap after GC, during Lists", figures.Bytes),
		figures.New("objects", "stored objects", figures.Count),
	}
	return v
}

// The numbers of reads of measureListers.
const (
	getRate     = 1000 // per second
	listsBefore = 4    // not timed; after them the cost of a List is constant
	listsTimed  = 200
)

var errNoLister = errors.New("there is no lister of pods")

// measureListers measures reads of a controller through listers: random single objects, then all
// objects again and again. It measures heaps while the reads continue.
func measureListers(ctx context.Context, s *subject) Figures {
	shared, ok := s.informer.(*sharedInformer)
	figures.Require(ok && shared.pods != nil, errNoLister)
	s.handleAll(s.count)
	s.sync(ctx)
	f := Figures{"objects": float64(s.len()), "getPackedNanos": s.timeFirstGets()}
	s.timeGets(ctx, f, shared)
	s.timeListing(ctx, f, shared.pods)
	return f
}

// timeGets reads random objects for s.Duration. At the end of that time it measures the heap, while
// the reads continue.
func (s *subject) timeGets(ctx context.Context, f Figures, shared *sharedInformer) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var g gets
	var reading sync.WaitGroup // a goroutine that ends with ctx or an error
	start := time.Now()
	reading.Go(func() {
		defer cancel()
		g.run(ctx, shared.pods, shared.GetIndexer().ListKeys())
	})
	pause(ctx, s.Duration)
	f["getHeapBytes"] = heapBytes()
	cancel()
	reading.Wait()
	figures.Check(g.err)
	f["getNanos"] = float64(g.took.Nanoseconds()) / float64(max(g.n, 1))
	f["getsPerSecond"] = float64(g.n) / time.Since(start).Seconds()
}

// gets reads random keys at a steady rate. It counts the reads and measures their time.
type gets struct {
	n    int
	took time.Duration
	err  error
}

// run reads until ctx ends or a read fails.
func (g *gets) run(ctx context.Context, pods listers.PodLister, keys []string) {
	random := rand.New(rand.NewPCG(1, uint64(len(keys))))
	tick := time.Tick(10 * time.Millisecond)
	begin := time.Now()
	for {
		begun := time.Now()
		due := int(begun.Sub(begin).Seconds() * getRate)
		at := g.n
		for ; g.n < due; g.n++ {
			namespace, name, _ := strings.Cut(keys[random.IntN(len(keys))], "/")
			_, err := pods.Pods(namespace).Get(name)
			if err != nil && !apierrors.IsNotFound(err) { // the object may have been deleted since
				g.err = err
				return
			}
		}
		if g.n > at {
			g.took += time.Since(begun)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
	}
}

// timeListing measures the time of the first List of all objects and of later ones, and then the
// heap.
func (s *subject) timeListing(ctx context.Context, f Figures, pods listers.PodLister) {
	list := func(int) error {
		found, err := pods.List(labels.Everything())
		if err == nil && len(found) == 0 {
			err = errNothing
		}
		return errors.Join(err, ctx.Err())
	}
	f["listFirstNanos"] = s.timed(1, list)
	s.timed(listsBefore, list)
	// Collect the garbage of the first lists now, so that it is not collected during the timed ones.
	settledHeap()
	f["listNanos"] = s.timed(listsTimed, list)
	f["listHeapBytes"] = heapBytes()
}
