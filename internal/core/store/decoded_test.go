package store

import (
	"errors"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/wire"
)

// fillPods puts n small pods p0, p1, …
func fillPods(t *testing.T, s *Store, n int) *Writer {
	t.Helper()
	w := s.Writer(Scope{})
	for i := range n {
		putPod(t, w, smallPod("", "p"+strconv.Itoa(i), i, 100+i, nil, ""))
	}
	w.Flush()
	return w
}

func get(t *testing.T, s *Store, key string) *Object {
	t.Helper()
	o, ok := s.Get(key)
	if !ok {
		t.Fatalf("no %s", key)
	}
	return o
}

func decoded(t *testing.T, o *Object) *corev1.Pod {
	t.Helper()
	v, err := o.Decoded()
	if err != nil {
		t.Fatal(err)
	}
	return v.(*corev1.Pod)
}

// held says how the store keeps an object's decoded value.
func held(o *Object) string {
	switch d := o.decoded.Load(); {
	case d == nil:
		return "packed"
	case d.strong.Load() != nil:
		return "strong"
	}
	return "weak"
}

func TestDecodedGetsWeakThenStrongThenCools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := decodeConfig()
		cfg.DecodedIdle = 8 * time.Second
		s := New(cfg)
		defer s.Close()
		fillPods(t, s, 2)
		o := get(t, s, "p0")
		want := func(when, how string) {
			t.Helper()
			if got := held(o); got != how {
				t.Fatalf("%s: %s, want %s", when, got, how)
			}
		}
		want("before the first read", "packed")
		first := decoded(t, o)
		want("after the first read", "weak")
		if decoded(t, o) != first {
			t.Fatal("two reads gave two objects")
		}
		want("after the second read", "strong")
		for range 20 { // each read is within the idle time, so the value stays
			time.Sleep(5 * time.Second)
			synctest.Wait()
			want("while it is read", "strong")
			decoded(t, o)
		}
		if m := s.Memory(); m.Decoded < decodedFactor*int64(o.Size()) {
			t.Errorf("decoded memory is %d", m.Decoded)
		}
		time.Sleep(7900 * time.Millisecond)
		synctest.Wait()
		want("idle for less than DecodedIdle", "strong")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		want("idle for DecodedIdle", "weak")
		if decoded(t, o) != first {
			t.Fatal("the test still uses it, so it must be the same")
		}
		want("read while another caller uses it", "strong")
		time.Sleep(time.Minute)
		synctest.Wait()
		if s.decoder.cache.footprint(0) != 0 {
			t.Error("still tracks what is idle")
		}
		runtime.KeepAlive(first)
	})
}

func TestDecodedEndsWithItsVersion(t *testing.T) {
	s := newStore(t, decodeConfig())
	w := fillPods(t, s, 1)
	old := get(t, s, "p0")
	decoded(t, old)
	decoded(t, old)
	putPod(t, w, smallPod("", "p0", 0, 200, nil, ""))
	w.Flush()
	if held(old) != "weak" || s.decoder.cache.footprint(0) != 0 {
		t.Errorf("a replaced version is held: %s, %d bytes", held(old), s.decoder.cache.footprint(0))
	}
	for range 3 {
		if decoded(t, old).ResourceVersion != "100" || held(old) != "weak" {
			t.Fatalf("a replaced version is held: %s", held(old))
		}
	}
}

func TestDecodedBudget(t *testing.T) {
	cfg := decodeConfig()
	s := newStore(t, cfg)
	fillPods(t, s, 10)
	one := decodedFactor * int64(get(t, s, "p0").Size())
	s.decoder.cache.budget = 3*one + one/2
	for i := range 10 {
		o := get(t, s, "p"+strconv.Itoa(i))
		keep := decoded(t, o)
		decoded(t, o)
		runtime.KeepAlive(keep)
		decoded(t, get(t, s, "p0")) // this one is read all the time
	}
	strong := 0
	for o := range s.Snapshot().All() {
		if held(o) == "strong" {
			strong++
		}
	}
	if strong == 0 || strong > 3 {
		t.Errorf("%d are held strongly, the budget is for 3", strong)
	}
	if s.decoder.cache.bytes > s.decoder.cache.budget {
		t.Errorf("%d bytes, budget %d", s.decoder.cache.bytes, s.decoder.cache.budget)
	}
}

func TestDecodedIsShared(t *testing.T) {
	s := newStore(t, decodeConfig())
	fillPods(t, s, 1)
	o := get(t, s, "p0")
	got := make([]*corev1.Pod, 16)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() { got[i] = decoded(t, o) })
	}
	wg.Wait()
	for _, pod := range got {
		if pod != got[0] {
			t.Fatal("concurrent readers got different objects")
		}
	}
}

func TestDecodedErrors(t *testing.T) {
	s := newStore(t, Config{Encoding: wire.Protobuf})
	fillPods(t, s, 1)
	if _, err := get(t, s, "p0").Decoded(); !errors.Is(err, ErrNoDecoder) {
		t.Errorf("without a decoder: %v", err)
	}
	broken := errors.New("broken")
	s = newStore(t, Config{Encoding: wire.Protobuf, Decode: func([]byte, *codec.Version) (any, error) { return nil, broken }})
	fillPods(t, s, 1)
	if _, err := get(t, s, "p0").Decoded(); !errors.Is(err, broken) || !strings.Contains(err.Error(), "p0") {
		t.Errorf("with a decoder that fails: %v", err)
	}
}

// TestDecodeCopy checks that DecodeCopy always calls Config.DecodeCopy, even if the shared value
// exists and Config.Decode returns other values.
func TestDecodeCopy(t *testing.T) {
	cfg := decodeConfig()
	one := new(corev1.Pod)
	cfg.Decode, cfg.DecodeCopy = func([]byte, *codec.Version) (any, error) { return one, nil }, decodePod
	s := newStore(t, cfg)
	fillPods(t, s, 1)
	o := get(t, s, "p0")
	for range 3 {
		if shared, err := o.Decoded(); err != nil || shared != any(one) {
			t.Errorf("the shared value is %v, %v", shared, err)
		}
		if own, err := o.DecodeCopy(); err != nil || own == any(one) || own.(*corev1.Pod).Name != "p0" {
			t.Errorf("a copy is %v, %v", own, err)
		}
	}
}

// TestDecodedAfterCollection checks that a value to which only a weak pointer refers is decoded
// again after it was garbage-collected. Because this is the second read, the cache must then keep
// the value.
func TestDecodedAfterCollection(t *testing.T) {
	s := newStore(t, decodeConfig())
	fillPods(t, s, 1)
	o := get(t, s, "p0")
	decoded(t, o)
	runtime.GC()
	runtime.GC()
	if o.decoded.Load().weak.alive() {
		t.Fatal("a decoded value that no caller uses is alive")
	}
	decoded(t, o)
	if held(o) != "strong" {
		t.Errorf("after the second read it is %s", held(o))
	}
}

// TestDecodedValues checks that Decoded works with a decoder that returns a nil pointer, or a value
// that is not a pointer.
func TestDecodedValues(t *testing.T) {
	for _, value := range []any{"text", 7, map[string]any{"a": 1}, struct{}{}, (*corev1.Pod)(nil), &struct{}{}} {
		s := newStore(t, Config{Encoding: wire.Protobuf, Decode: func([]byte, *codec.Version) (any, error) { return value, nil }})
		fillPods(t, s, 1)
		for range 3 {
			if _, err := get(t, s, "p0").Decoded(); err != nil {
				t.Fatal(err)
			}
			runtime.GC()
		}
	}
}
