package store

import (
	"runtime"
	"strconv"
	"testing"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestDeletedObjectsLeaveNothing checks that a store frees the memory of deleted objects. In
// Kubernetes issue 111370, an informer kept nearly all memory after most of its objects were
// deleted. The store of the test also has an index and a cursor.
func TestDeletedObjectsLeaveNothing(t *testing.T) {
	testenv.SkipUnderRace(t)
	const n, keepEach = 20_000, 100
	raws := podsim.Spread(wire.Protobuf.String(), 1000)
	var m wire.Meta
	before := testenv.LiveBytes()
	s := newStore(t, decodeConfig())
	c := s.Cursor()
	defer c.Close()
	check.NoError(t, s.AddIndex("app", LabelIndex("app")))
	w := s.Writer(Scope{})
	list := func(each int, rv string) {
		w.BeginReplace(false)
		for i := 0; i < n; i += each {
			raw := raws[i%len(raws)]
			check.NoError(t, wire.ReadMeta(wire.Protobuf, raw, &m))
			m.Name = []byte("pod-" + strconv.Itoa(1_000_000+i))
			check.NoError(t, w.Put(&m, raw))
		}
		w.EndReplace(rv)
		drain(c)
	}
	list(1, "10000")
	full := testenv.LiveBytes() - before
	list(keepEach, "10001")
	left := testenv.LiveBytes() - before
	// 1 % of the objects is left. fixed is for the memory that does not depend on the number of
	// objects: a dictionary, batches, scratch.
	const fixed = 400 << 10
	if s.Len() != n/keepEach || left > full*15/1000+fixed {
		t.Errorf("%d of %d objects hold %d of %d bytes\n%s", s.Len(), n, left, full, s.Memory())
	}
	runtime.KeepAlive(s)
	runtime.KeepAlive(raws) // the measurement before also includes raws
}

// TestObjectsPinNothing checks that an object that a caller keeps does not keep the memory of the
// store.
func TestObjectsPinNothing(t *testing.T) {
	testenv.SkipUnderRace(t)
	before := testenv.LiveBytes()
	s := New(decodeConfig())
	w := s.Writer(Scope{})
	raws := podsim.Spread(wire.Protobuf.String(), 2500)
	for _, raw := range raws {
		put(t, w, raw)
	}
	w.Flush()
	var kept *Object
	for o := range s.Snapshot().All() {
		kept = o
	}
	decoded(t, kept)
	full := testenv.LiveBytes() - before
	s.Close()
	s, w, raws = nil, nil, nil
	if left := testenv.LiveBytes() - before; left > full/20 {
		t.Errorf("one object holds %d of %d bytes", left, full)
	}
	runtime.KeepAlive(kept)
}

// TestBlockedCursorCosts checks that the store keeps at most one old version of each key for a
// cursor that is never read.
func TestBlockedCursorCosts(t *testing.T) {
	testenv.SkipUnderRace(t)
	cfg := decodeConfig()
	cfg.LogBytes = 64 << 10
	s := newStore(t, cfg)
	w := s.Writer(Scope{})
	raws := podsim.Spread(wire.Protobuf.String(), 1000)
	for _, raw := range raws {
		put(t, w, raw)
	}
	w.Flush()
	c := s.Cursor()
	defer c.Close()
	drain(c)
	held := s.Memory().Packed
	rv := 1_000_000
	var m wire.Meta
	update := func(times int) {
		for range times {
			for _, raw := range raws {
				check.NoError(t, wire.ReadMeta(wire.Protobuf, raw, &m))
				rv++
				m.ResourceVersion = []byte(strconv.Itoa(rv))
				check.NoError(t, w.Put(&m, raw))
			}
		}
		w.Flush()
	}
	update(2)
	once := testenv.LiveBytes()
	update(20)
	if grown := testenv.LiveBytes() - once; grown > held/4 {
		t.Errorf("twenty more updates of each cost %d bytes, the objects take %d", grown, held)
	}
	mem := s.Memory()
	if mem.Log > cfg.LogBytes+2*minLog*changeBytes*16 || mem.Cursors > 2*held {
		t.Errorf("log %d, cursors %d, packed %d", mem.Log, mem.Cursors, held)
	}
	if got := len(drain(c)); got > len(raws)+int(cfg.LogBytes/changeBytes) {
		t.Errorf("%d changes for %d keys", got, len(raws))
	}
	check.Equal(t, s.Memory().Cursors, 0, "read to its end, a cursor still costs")
}
