//go:build !weir_safe && !oldest

package clientgo

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/testing/check"
)

// historySource is a ListerWatcher that keeps each change until compact, like etcd.
type historySource struct {
	mu      sync.Mutex
	version int
	oldest  int // events has every change after this version
	uids    int
	pods    map[string]*corev1.Pod
	events  []watch.Event
	watches []chan watch.Event
	down    bool
}

// change creates a pod, or changes or deletes it if it exists.
func (s *historySource) change(name string, r *rand.Rand) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	e, old := watch.Event{Type: watch.Modified}, s.pods[name]
	p := podAt(strconv.Itoa(s.version), name, strconv.Itoa(s.version))
	switch {
	case old == nil:
		s.uids++
		e.Type, p.UID = watch.Added, types.UID(strconv.Itoa(s.uids))
	case r.IntN(3) == 0:
		p = old.DeepCopy()
		e.Type, p.ResourceVersion = watch.Deleted, strconv.Itoa(s.version)
	default:
		p.UID = old.UID
	}
	if s.pods[name] = p; e.Type == watch.Deleted {
		delete(s.pods, name)
	}
	e.Object = p
	s.events = append(s.events, e)
	for _, w := range s.watches {
		w <- watch.Event{Type: e.Type, Object: p.DeepCopy()}
	}
}

func (s *historySource) List(metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, syscall.ECONNREFUSED
	}
	list := podList(strconv.Itoa(s.version))
	for _, p := range s.pods {
		list.Items = append(list.Items, *p.DeepCopy())
	}
	return list, nil
}

func (s *historySource) Watch(o metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from, err := strconv.Atoi(o.ResourceVersion)
	switch {
	case s.down:
		return nil, syscall.ECONNREFUSED
	case err != nil:
		return nil, err
	case from < s.oldest:
		return nil, apierrors.NewResourceExpired("too old resource version")
	}
	w := make(chan watch.Event, 10_000) // more than the changes of the test
	for _, e := range s.events[from-s.oldest:] {
		w <- watch.Event{Type: e.Type, Object: e.Object.DeepCopyObject()}
	}
	s.watches = append(s.watches, w)
	return watch.NewProxyWatcher(w), nil
}

// IsWatchListSemanticsUnSupported makes client-go's informer list.
func (s *historySource) IsWatchListSemanticsUnSupported() bool { return true }

// end ends all watches, after last if it is not nil.
func (s *historySource) end(last *metav1.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watches {
		if last != nil {
			w <- watch.Event{Type: watch.Error, Object: last.DeepCopy()}
		}
		close(w)
	}
	s.watches = nil
}

// compact drops the history. From then on, watches from an earlier version fail.
func (s *historySource) compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events, s.oldest = nil, s.version
}

func (s *historySource) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// TestShadowRelists runs random changes through ended watches, outages and relists. Between two
// watches, objects change, are deleted and are created again. There must be no difference, and
// everything must have been compared.
func TestShadowRelists(t *testing.T) {
	silent(t)
	for name, mode := range bothShadows {
		for seed := range uint64(4) {
			t.Run(fmt.Sprintf("%s/%d", name, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { shadowRelists(t, mode, rand.New(rand.NewPCG(seed, 2))) })
			})
		}
	}
}

func shadowRelists(t *testing.T, mode Shadow, r *rand.Rand) {
	source := &historySource{pods: map[string]*corev1.Pod{}}
	inf := NewSharedIndexInformerWithOptions(source, &corev1.Pod{}, 0, nil, Options{Shadow: mode}).(*shadowed)
	var handled atomic.Int64
	register(t, inf, cache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) {
		time.Sleep(time.Duration(handled.Add(1)%5) * 100 * time.Millisecond)
	}})
	stop := run(t, inf)
	var late []cache.ResourceEventHandlerRegistration
	change := func(most int) {
		if r.IntN(2) == 0 {
			late = append(late, register(t, inf, newRecorder()))
		} else if len(late) > 2 {
			check.NoError(t, inf.RemoveEventHandler(late[0]))
			late = late[1:]
		}
		for range r.IntN(most) {
			source.change(fmt.Sprint("p", r.IntN(20)), r)
			if r.IntN(10) == 0 {
				time.Sleep(time.Duration(r.IntN(20_000)) * time.Millisecond)
			}
		}
	}
	for range 60 {
		change(30)
		switch r.IntN(3) {
		case 0:
			source.end(nil) // resumed, if nothing is compacted meanwhile
		case 1:
			change(2)
			source.compact()
			source.end(statusOf(apierrors.NewResourceExpired("too old resource version")))
		case 2:
			source.setDown(true)
			source.end(nil)
			change(20)
			source.compact()
			source.setDown(false)
		}
		time.Sleep(time.Duration(r.IntN(120)) * time.Second)
	}
	time.Sleep(time.Hour)
	synctest.Wait()
	check.NoError(t, Err(inf))
	status := inf.weir.engine.Statuses()[0]
	if c := inf.counts; status.Relists < 20 || c.Objects.Load() < 300 || handled.Load() == 0 {
		t.Errorf("%d relists, %s, %d handler calls", status.Relists, c, handled.Load())
	}
	for _, p := range inf.pairs {
		check.Equal(t, len(p[0].comparison.open), 0, "open keys")
		check.Equal(t, len(p[0].comparison.settled), len(inf.GetStore().ListKeys()), "settled keys")
	}
	stop()
}
