package store

import (
	"errors"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/testing/check"
)

// manyPods puts enough pods that several goroutines decode them, and returns the pods.
func manyPods(t *testing.T, cfg Config) []*Object {
	t.Helper()
	before := runtime.GOMAXPROCS(4)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	s := newStore(t, cfg)
	fillPods(t, s, 40*partObjects)
	var all []*Object
	for o := range s.Snapshot().All() {
		all = append(all, o)
	}
	return all
}

// TestDecodeEach checks that decodeEach calls the function once for every object. The calls must
// not overlap, because the function need not be safe for concurrent use.
func TestDecodeEach(t *testing.T) {
	cfg := decodeConfig()
	broken := errors.New("broken")
	cfg.Decode = func(raw []byte, earlier *codec.Version) (any, error) {
		value, err := decodePod(raw, earlier)
		if err == nil && value.(*corev1.Pod).Name == "p7" {
			return nil, broken
		}
		return value, err
	}
	all := manyPods(t, cfg)
	var using atomic.Int32
	seen := map[string]int{}
	decodeEach(all, func(o *Object, decoded any, err error) {
		if using.Add(1) > 1 {
			t.Error("two at a time")
		}
		runtime.Gosched()
		seen[o.Key()]++
		switch pod, _ := decoded.(*corev1.Pod); {
		case o.Key() == "p7" && !errors.Is(err, broken):
			t.Errorf("p7: %v", err)
		case o.Key() != "p7" && (err != nil || pod.Name != o.Key()):
			t.Errorf("%s: %v, %v", o.Key(), pod, err)
		}
		using.Add(-1)
	})
	for _, o := range all {
		check.Equal(t, seen[o.Key()], 1, "%s was used times", o.Key())
	}
}

// TestDecodeEachPanics checks that a panic of the decoder reaches the caller, also from another
// goroutine. All goroutines must have ended.
func TestDecodeEachPanics(t *testing.T) {
	for n := range 4 {
		bad := "p" + strconv.Itoa(n*9*partObjects)
		cfg := decodeConfig()
		cfg.Decode = func(raw []byte, earlier *codec.Version) (any, error) {
			value, err := decodePod(raw, earlier)
			if err == nil && value.(*corev1.Pod).Name == bad {
				panic(bad)
			}
			return value, err
		}
		all := manyPods(t, cfg)
		func() {
			defer func() {
				check.Equal[any](t, recover(), bad, "recovered")
			}()
			decodeEach(all, func(*Object, any, error) { runtime.Gosched() })
		}()
	}
}

// TestDecodeEachGoexit checks that decodeEach ends the caller's goroutine if Config.Decode ends the
// goroutine in which it runs. All other goroutines must have ended.
func TestDecodeEachGoexit(t *testing.T) {
	cfg := decodeConfig()
	cfg.Decode = func(raw []byte, earlier *codec.Version) (any, error) {
		value, err := decodePod(raw, earlier)
		if err == nil && value.(*corev1.Pod).Name == "p7" {
			runtime.Goexit()
		}
		return value, err
	}
	all := manyPods(t, cfg)
	slices.Reverse(all) // p7 is in the last part
	for range 10 {
		ended := make(chan bool)
		go func() {
			whole := false
			defer func() { ended <- !whole }()
			decodeEach(all, func(*Object, any, error) { runtime.Gosched() })
			whole = true
		}()
		if !<-ended {
			t.Error("went on")
		}
	}
}
