package store

import (
	"reflect"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/weirproject/weir/internal/testing/check"
)

func TestMemoryString(t *testing.T) {
	for name, m := range map[string]Memory{
		"empty": {},
		"pods": {
			Objects: 50_000, Raw: 248_333_120, Packed: 33_341_590, Keys: 2_246_500, Tree: 7_900_000,
			Indexes: 2_150_400, Decoded: 1_234, Log: 98_304, Cursors: 0, Dictionary: 60_796,
		},
	} {
		t.Run(name, func(t *testing.T) {
			datadriven.RunTest(t, "testdata/memory_"+name+".txt", func(*testing.T, *datadriven.TestData) string {
				return m.String()
			})
		})
	}
}

func TestObjectOverhead(t *testing.T) {
	if size := reflect.TypeFor[Object]().Size(); size > objectOverhead || size <= objectOverhead-16 {
		t.Errorf("an Object is %d bytes", size)
	}
}

func TestMemoryByPurpose(t *testing.T) {
	s := newStore(t, Config{LogBytes: 1})
	if m := s.Memory(); m.Total() != 0 {
		t.Errorf("an empty store takes %+v", m)
	}
	w := fillPods(t, s, 100)
	c := s.Cursor()
	drain(c)
	check.NoError(t, s.AddIndex("node", LabelIndex("node")))
	for i := range 50 {
		putPod(t, w, smallPod("", "p"+string(rune('0'+i%10)), i%10, 1000+i, map[string]string{"node": "n"}, ""))
	}
	w.Flush()
	m := s.Memory()
	var packed, keys, raw int64
	for o := range s.Snapshot().All() {
		packed += int64(len(o.packed))
		keys += int64(len(o.key))
		raw += int64(o.Size())
	}
	if m.Objects != 100 || m.Packed != packed || m.Keys != keys || m.Raw != raw {
		t.Errorf("%+v, want packed %d, keys %d, raw %d", m, packed, keys, raw)
	}
	if m.Indexes == 0 || m.Cursors == 0 || m.Dictionary == 0 || m.Tree == 0 {
		t.Errorf("%+v", m)
	}
	c.Close()
	if m := s.Memory(); m.Cursors != 0 {
		t.Errorf("without cursors: %+v", m)
	}
}
