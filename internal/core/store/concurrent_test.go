package store

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/core/wire"
)

// TestConcurrentUse runs two writers, cursors that read at different paces, and readers of
// snapshots, indexes and decoded objects, while indexes are added. It is mainly for the race
// detector.
func TestConcurrentUse(t *testing.T) {
	cfg := decodeConfig()
	cfg.LogBytes = 2000
	cfg.DecodedIdle = time.Millisecond
	cfg.DecodedBudget = 20_000
	s := newStore(t, cfg)
	var stop atomic.Bool
	var writing, reading sync.WaitGroup
	for i, ns := range []string{"a", "b"} {
		w := s.Writer(Scope{Namespace: ns})
		writing.Go(func() { churn(t, w, ns, uint64(i)) })
	}
	for i := range 3 {
		c := s.Cursor()
		reading.Go(func() {
			defer c.Close()
			follow(t, s, c, 1+7*i, &stop)
		})
	}
	reading.Go(func() { query(t, s, &stop) })
	reading.Go(func() {
		for !stop.Load() {
			for o := range s.Snapshot().Namespace("a") {
				if pod := decoded(t, o); pod.Name != o.Name() || pod.ResourceVersion != o.ResourceVersion() {
					t.Errorf("%s is %s@%s", o.Key(), pod.Name, pod.ResourceVersion)
				}
			}
			_ = s.Memory().String()
			s.List(func(err error) { t.Error(err) })
		}
	})
	path, err := wire.CompilePath(wire.Protobuf, reflect.TypeFor[corev1.Pod](), "spec.nodeName")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := errors.Join(
			s.AddIndex("label"+strconv.Itoa(i), LabelIndex("app")),
			s.AddIndex("node"+strconv.Itoa(i), FieldIndex(path)),
			s.AddIndex("func"+strconv.Itoa(i), FuncIndex(func(v any) ([]string, error) {
				return []string{v.(*corev1.Pod).Labels["app"]}, nil
			})),
		); err != nil {
			t.Error(err)
		}
	}
	writing.Wait()
	stop.Store(true)
	reading.Wait()
	s.decoder.cache.mu.Lock()
	defer s.decoder.cache.mu.Unlock()
	s.decoder.cache.check(t)
}

// TestCursorBytesWhileRead checks that Bytes never grows while a cursor is read, and ends at 0. It
// is mainly for the race detector.
func TestCursorBytesWhileRead(t *testing.T) {
	cfg := decodeConfig()
	cfg.LogBytes = 1
	s := newStore(t, cfg)
	c := s.Cursor()
	drain(c)
	fillPods(t, s, 10_000)
	if c.Bytes() == 0 {
		t.Fatal("nothing is kept for the cursor")
	}
	begun, read := make(chan struct{}), make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() {
		last := c.Bytes()
		close(begun)
		for {
			now := c.Bytes()
			if now < 0 || now > last {
				t.Errorf("%d bytes are kept, after %d", now, last)
			}
			last = now
			select {
			case <-read:
				return
			default:
			}
		}
	})
	<-begun
	drain(c)
	close(read)
	asking.Wait()
	if n := c.Bytes(); n != 0 {
		t.Errorf("%d bytes are kept for what was read", n)
	}
}

// churn repeats this 20 times: it lists the pods of one namespace, and then changes them. At the
// end, it makes the writer read an empty list.
func churn(t *testing.T, w *Writer, ns string, seed uint64) {
	rnd := newRand(seed)
	rv := 0
	for round := range 20 {
		w.BeginReplace(false)
		for i := range 50 {
			rv++
			putPod(t, w, smallPod(ns, "p"+strconv.Itoa(i), i, rv, map[string]string{"app": strconv.Itoa(rnd.IntN(5))}, "n"))
		}
		w.EndReplace(strconv.Itoa(rv))
		for range 100 {
			rv++
			pod := smallPod(ns, "p"+strconv.Itoa(rnd.IntN(60)), rnd.IntN(2), rv, map[string]string{"app": strconv.Itoa(rnd.IntN(5))}, "n")
			if rnd.IntN(4) == 0 {
				deletePod(t, w, pod)
			} else {
				putPod(t, w, pod)
			}
			if rnd.IntN(10) == 0 {
				w.Flush()
			}
		}
		w.Progress(strconv.Itoa(rv))
		if round == 19 {
			w.BeginReplace(false)
			w.EndReplace(strconv.Itoa(rv))
		}
	}
	w.Flush()
}

// follow reads a cursor to its end. It checks that the old version in each change is the last
// version of the key that the cursor returned before. The final state must equal the store's.
func follow(t *testing.T, s *Store, c *Cursor, pace int, stop *atomic.Bool) {
	view := map[string]*Object{}
	buf := make([]Change, pace)
	for {
		last := stop.Load()
		n := c.Next(buf)
		for _, ch := range buf[:n] {
			if !sameVersion(view[ch.Key()], ch.Old) {
				t.Errorf("%s: old is not what was seen last", ch.Key())
			}
			if view[ch.Key()] = ch.New; ch.New == nil {
				s.DropDerived(ch.Key())
				delete(view, ch.Key())
				continue
			}
			_, value, err := s.Values(&ch)
			if err != nil {
				t.Error(err)
			}
			s.Derive(ch.New, value)
		}
		if n == 0 && last {
			break
		}
		if n == 0 {
			select {
			case <-c.Ready():
			case <-time.After(10 * time.Millisecond): // to read stop again
			}
		}
	}
	sn := s.Snapshot()
	if len(view) != sn.Len() {
		t.Errorf("sees %d objects of %d", len(view), sn.Len())
	}
	for o := range sn.All() {
		if view[o.Key()] != o {
			t.Errorf("%s is not the newest", o.Key())
		}
	}
}

// query repeatedly compares the results of indexes with a scan of the snapshot, until stop is true.
func query(t *testing.T, s *Store, stop *atomic.Bool) {
	for i := 0; !stop.Load(); i++ {
		sn := s.Snapshot()
		for _, by := range []string{"label", "func"} {
			name := fmt.Sprintf("%s%d", by, i%10)
			value := strconv.Itoa(i % 5)
			objects, err := sn.By(name, value)
			if errors.Is(err, ErrUnknownIndex) {
				continue
			}
			if err != nil {
				t.Error(err)
			}
			got := 0
			for o := range objects {
				if v, _ := o.Label("app"); v != value {
					t.Errorf("%s: %s has %s, not %s", name, o.Key(), v, value)
				}
				got++
			}
			want := 0
			for o := range sn.All() {
				if v, _ := o.Label("app"); v == value {
					want++
				}
			}
			if got != want {
				t.Errorf("%s: %d objects, want %d", name, got, want)
			}
		}
	}
}

func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(decodeConfig())
		defer s.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.WaitSynced(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without a writer: %v", err)
		}
		if err := s.WaitResourceVersion(t.Context(), "abc"); !errors.Is(err, ErrInvalidResourceVersion) {
			t.Errorf("abc: %v", err)
		}
		for _, rv := range []string{"", "0"} {
			if err := s.WaitResourceVersion(t.Context(), rv); err != nil {
				t.Errorf("%q: %v", rv, err)
			}
		}
		a, b := s.Writer(Scope{Namespace: "a"}), s.Writer(Scope{Namespace: "b"})
		var synced, reached atomic.Bool
		go func() {
			if s.WaitSynced(t.Context()) == nil {
				synced.Store(true)
			}
		}()
		go func() {
			if s.WaitResourceVersion(t.Context(), "20") == nil {
				if _, ok := s.Get("b/x"); !ok {
					t.Error("at 20, but what was written at 20 is not there")
				}
				reached.Store(true)
			}
		}()
		check := func(step string, wantSynced, wantReached bool, rv string) {
			t.Helper()
			synctest.Wait()
			if synced.Load() != wantSynced || s.Synced() != wantSynced || reached.Load() != wantReached || s.ResourceVersion() != rv {
				t.Errorf("%s: synced %v, reached %v, at %q", step, synced.Load(), reached.Load(), s.ResourceVersion())
			}
		}
		a.BeginReplace(false)
		a.EndReplace("30")
		check("one of two synced", false, false, "")
		b.BeginReplace(false)
		b.EndReplace("9")
		check("both synced", true, false, "9")
		putPod(t, b, smallPod("b", "x", 1, 20, nil, ""))
		b.Progress("20")
		check("progress with a change that is not applied", true, false, "9")
		if b.ResourceVersion() != "20" {
			t.Errorf("the writer is at %s", b.ResourceVersion())
		}
		b.Flush()
		check("applied", true, true, "20")
		b.Remove()
		check("one writer gone", true, true, "30")
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(decodeConfig())
		w := fillPods(t, s, 3)
		c := s.Cursor()
		drain(c)
		o := get(t, s, "p0")
		decoded(t, o)
		decoded(t, o)
		waited := make(chan error, 1)
		go func() { waited <- s.WaitResourceVersion(t.Context(), "10") }()
		synctest.Wait()
		for range 2 {
			s.Close()
		}
		if err := <-waited; !errors.Is(err, ErrClosed) {
			t.Errorf("waiting ended with %v", err)
		}
		<-c.Ready()
		if !c.Closed() || c.Next(make([]Change, 1)) != 0 {
			t.Error("the cursor is open")
		}
		m := wire.Meta{Name: []byte("p0"), ResourceVersion: []byte("900")}
		if err := errors.Join(w.Put(&m, nil), w.Delete(&m, nil)); !errors.Is(err, ErrClosed) {
			t.Errorf("writing: %v", err)
		}
		if _, err := s.CursorAt(0); !errors.Is(err, ErrClosed) {
			t.Errorf("CursorAt: %v", err)
		}
		if c := s.Cursor(); !c.Closed() {
			t.Error("a cursor on a closed store is open")
		}
		for range 3 {
			decoded(t, o) // reading still works after Close, and starts no goroutine
		}
	})
}
