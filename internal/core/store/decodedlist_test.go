package store

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/core/codec"
)

func (l *decodedList) there() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept != nil
}

// replacePods puts n small pods as the first list of a writer.
func replacePods(t *testing.T, s *Store, n int) *Writer {
	t.Helper()
	w := s.Writer(Scope{})
	w.BeginReplace(false)
	for i := range n {
		putPod(t, w, smallPod("", "p"+strconv.Itoa(i), i, 100+i, nil, ""))
	}
	w.EndReplace("500")
	return w
}

// listedStore is a store under test, and the objects that it must have.
type listedStore struct {
	t       *testing.T
	s       *Store
	w       *Writer
	held    map[string]string // name to resourceVersion
	version int               // the last resourceVersion
}

// check calls List, and checks the result and whether the store then caches a list.
func (l *listedStore) check(held bool) {
	l.t.Helper()
	got := l.s.List(func(err error) { l.t.Error(err) })
	if len(got) != len(l.held) {
		l.t.Fatalf("%d listed, %d held", len(got), len(l.held))
	}
	for _, obj := range got {
		p := obj.(*corev1.Pod)
		if v, ok := l.held[p.Name]; !ok || v != p.ResourceVersion {
			l.t.Fatalf("%s is listed with %s, held with %q", p.Name, p.ResourceVersion, v)
		}
	}
	if is := l.s.list.there(); is != held {
		l.t.Fatalf("there is a list %v, want %v", is, held)
	}
	if len(got) > 0 {
		got[0] = nil // the slice belongs to the caller
	}
}

// change makes up to 600 random changes.
func (l *listedStore) change(rnd *rand.Rand) {
	for range rnd.IntN(600) {
		name := strconv.Itoa(rnd.IntN(300))
		l.version++
		pod := smallPod("", name, 1, l.version, nil, "")
		if rnd.IntN(3) == 0 {
			delete(l.held, name)
			deletePod(l.t, l.w, pod)
		} else {
			l.held[name] = pod.ResourceVersion
			putPod(l.t, l.w, pod)
		}
		l.w.Flush()
	}
}

// TestList checks that the second List caches its result, and that later Lists return all changes.
// The store must drop the cached list when no caller has called List for a long time.
func TestList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rnd := newRand(3)
		s := New(decodeConfig())
		defer s.Close()
		l := &listedStore{t: t, s: s, w: s.Writer(Scope{}), held: map[string]string{}}
		l.w.BeginReplace(false)
		l.change(rnd)
		l.check(false)
		l.check(false) // not cached: the store is not synced
		l.w.EndReplace(strconv.Itoa(l.version))
		time.Sleep(2 * listIdle)
		l.check(false)
		time.Sleep(2 * listIdle) // so long that the next List counts as the first
		l.check(false)
		for range 50 {
			l.change(rnd)
			time.Sleep(listIdle / 2)
			l.check(true)
		}
		if m := s.Memory(); m.Decoded < decodedFactor*m.Raw {
			t.Errorf("%d bytes are decoded of %d", m.Decoded, m.Raw)
		}
		time.Sleep(listIdle - time.Second)
		if synctest.Wait(); !s.list.there() || s.Memory().Decoded < decodedFactor*s.Memory().Raw {
			t.Error("the list was dropped too soon")
		}
		time.Sleep(3 * time.Minute)
		if synctest.Wait(); s.list.there() || s.Memory().Decoded != 0 {
			t.Errorf("there is still a list, or %d bytes", s.Memory().Decoded)
		}
		l.check(false)
		l.check(true)
		s.Close()
		if s.list.there() {
			t.Error("there is a list after the end")
		}
		l.check(false)
		l.check(false) // the store can still be listed
	})
}

// TestListBudget checks that no list is cached unless the values of all objects fit the budget.
func TestListBudget(t *testing.T) {
	cfg := decodeConfig()
	cfg.DecodedBudget = 20_000
	s := newStore(t, cfg)
	list := func() int { return len(s.List(func(err error) { t.Error(err) })) }
	w := replacePods(t, s, 10)
	if first, second := list(), list(); first != 10 || second != 10 || !s.list.there() {
		t.Error("there is no list, though all objects fit the budget")
	}
	for i := range 200 {
		putPod(t, w, smallPod("", "q"+strconv.Itoa(i), i, 1000+i, nil, ""))
	}
	w.Flush()
	if first, second := list(), list(); first != 210 || second != 210 || s.list.there() {
		t.Error("there is a list, though the budget is too small")
	}
	if n := s.decoder.cache.bytes; n > cfg.DecodedBudget {
		t.Errorf("%d bytes are held", n)
	}
}

// TestListHits checks that a List of cached values counts as a read of each object.
func TestListHits(t *testing.T) {
	s := newStore(t, decodeConfig())
	w := replacePods(t, s, 10)
	for range 4 {
		s.List(nil)
	}
	putPod(t, w, smallPod("", "p0", 0, 200, nil, ""))
	w.Flush()
	s.List(nil)
	if hits, misses := s.DecodedReads(); hits != 39 || misses != 11 {
		t.Errorf("%d hits, %d misses", hits, misses)
	}
}

// TestListUndecodable checks that List omits an object whose version cannot be decoded, and returns
// a later version of it.
func TestListUndecodable(t *testing.T) {
	cfg := decodeConfig()
	bad := errors.New("cannot be decoded")
	cfg.Decode = func(raw []byte, earlier *codec.Version) (any, error) {
		pod := new(corev1.Pod)
		if err := pod.Unmarshal(raw); err != nil || pod.Labels["bad"] != "" {
			return nil, errors.Join(bad, err)
		}
		return pod, nil
	}
	s := newStore(t, cfg)
	w := replacePods(t, s, 2)
	version := 1000
	check := func(want, wantFailed int) {
		t.Helper()
		failed := 0
		got := len(s.List(func(err error) {
			if failed++; !errors.Is(err, bad) {
				t.Error(err)
			}
		}))
		if got != want || failed != wantFailed {
			t.Errorf("%d of %d are listed, %d have failed", got, want, failed)
		}
	}
	put := func(name string, labels map[string]string) {
		version++
		putPod(t, w, smallPod("", name, 1, version, labels, ""))
		w.Flush()
	}
	check(2, 0)
	check(2, 0)
	put("p0", map[string]string{"bad": "yes"})
	put("p1", nil)
	check(1, 1)
	check(1, 1)
	put("p0", nil)
	check(2, 0)
}

// TestListAfterPanic checks a decoder that panics or fails once. The next List must return every
// object.
func TestListAfterPanic(t *testing.T) {
	for name, fail := range map[string]func() error{
		"panic": func() error { panic("cannot be decoded") },
		"error": func() error { return errors.New("cannot be decoded") },
	} {
		t.Run(name, func(t *testing.T) {
			broken := false
			cfg := decodeConfig()
			cfg.Decode = func(raw []byte, earlier *codec.Version) (any, error) {
				if broken {
					broken = false
					return nil, fail()
				}
				return decodePod(raw, earlier)
			}
			s := newStore(t, cfg)
			w := replacePods(t, s, 3)
			list := func() []any {
				defer func() { _ = recover() }()
				return s.List(func(error) {})
			}
			list()
			list()
			for i := range 3 {
				putPod(t, w, smallPod("", "p"+strconv.Itoa(i), i, 1000+i, nil, ""))
			}
			w.Flush()
			broken = true
			list()
			versions := map[string]bool{}
			for _, pod := range list() {
				versions[pod.(*corev1.Pod).ResourceVersion] = true
			}
			if len(versions) != 3 || !versions["1000"] || !versions["1001"] || !versions["1002"] {
				t.Errorf("listed are %v", versions)
			}
		})
	}
}

// TestListDecodesTheNewest checks that List decodes only the newest versions of objects that have
// changed often since the last List.
func TestListDecodesTheNewest(t *testing.T) {
	s := newStore(t, decodeConfig())
	w := replacePods(t, s, 10)
	s.List(nil)
	s.List(nil)
	for version := range 50 {
		for i := range 10 {
			putPod(t, w, smallPod("", "p"+strconv.Itoa(i), i, 1000+version, nil, ""))
		}
		w.Flush()
	}
	_, before := s.DecodedReads()
	s.List(nil)
	if _, misses := s.DecodedReads(); misses-before != 10 {
		t.Errorf("%d are decoded", misses-before)
	}
}

// TestListFailedMayList checks the function that List calls for an object that cannot be decoded.
// This function may call List, and may close the store.
func TestListFailedMayList(t *testing.T) {
	broken := false
	cfg := decodeConfig()
	cfg.Decode = func(raw []byte, earlier *codec.Version) (any, error) {
		if broken {
			return nil, errors.New("cannot be decoded")
		}
		return decodePod(raw, earlier)
	}
	s := newStore(t, cfg)
	w := replacePods(t, s, 1)
	s.List(nil)
	s.List(nil)
	broken = true
	putPod(t, w, smallPod("", "p0", 0, 1000, nil, ""))
	w.Flush()
	failures := 0
	s.List(func(error) {
		s.List(func(error) { failures++ })
		s.Close()
	})
	if failures != 1 {
		t.Errorf("told %d times", failures)
	}
}

// TestListDropsDeletedObjects checks that a cached list drops the values of deleted objects within
// ten seconds, even if no caller lists.
func TestListDropsDeletedObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(decodeConfig())
		defer s.Close()
		w := replacePods(t, s, 10)
		s.List(nil)
		s.List(nil)
		for i := range 5 {
			deletePod(t, w, smallPod("", "p"+strconv.Itoa(i), i, 1000+i, nil, ""))
		}
		w.Flush()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := s.list.size.Load(); n > 5 || !s.list.there() {
			t.Errorf("%d are held, there is a list %v", n, s.list.there())
		}
		if n := len(s.List(nil)); n != 5 {
			t.Errorf("%d are listed", n)
		}
	})
}
