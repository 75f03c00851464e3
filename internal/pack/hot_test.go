package pack

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/podsim"
)

// TestHotBases: a base that is unpacked alone, again and again, gets a form that unpacks fast. The
// forms are counted and bounded, and go with their bases.
func TestHotBases(t *testing.T) {
	s := newGroups(t, podsim.New(20_000, 1), 60)
	shelf := s.packer.siblings.shelf
	unpackAll := func() {
		for i := range s.objects {
			m := &s.objects[i*37%len(s.objects)]
			shelf.last = recent{} // as if others had been unpacked meanwhile
			if back, err := m.dict.Unpack(nil, m.packed, len(m.raw)); err != nil || !bytes.Equal(back, m.raw) {
				t.Fatalf("%s does not come back: %v", m.name.Object, err)
			}
		}
	}
	shelf.empty()
	before := s.packer.Size()
	unpackAll()
	hot, sum := map[*base]bool{}, 0
	for i := range s.objects {
		if b := s.objects[i].base(); b != nil && !hot[b] {
			if form := b.counts.hot.Load(); form != nil {
				hot[b], sum = true, sum+len(*form)
				if raw, err := b.dict.Unpack(nil, *form, b.size); err != nil || len(raw) != b.size {
					t.Errorf("a hot form does not come back: %v", err)
				}
			}
		}
	}
	if len(hot) < 50 || shelf.hot != sum || s.packer.Size()-before < int64(sum) {
		t.Errorf("%d bases are hot, of %d bytes; %d are counted, and %d of %d in all", len(hot), sum, shelf.hot, s.packer.Size()-before, before)
	}

	other := newGroups(t, podsim.New(20_000, 2), 60)
	other.packer.siblings.shelf.hot = maxHot
	for range hotBase + 1 {
		m := &other.objects[len(other.objects)-1]
		other.packer.siblings.shelf.empty()
		if _, err := m.dict.Unpack(nil, m.packed, len(m.raw)); err != nil {
			t.Fatal(err)
		}
		if b := m.base(); b == nil || b.counts.hot.Load() != nil {
			t.Fatal("it is hot though there is no room")
		}
	}
	hot, s.objects = nil, nil
	deadline := time.Now().Add(time.Minute)
	for {
		runtime.GC()
		shelf.mu.Lock()
		left := shelf.hot
		shelf.mu.Unlock()
		if left == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are counted when all is gone", left)
		}
		runtime.Gosched()
	}
}
