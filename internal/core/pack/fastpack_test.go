package pack

import (
	"bytes"
	"testing"

	"github.com/weirproject/weir/internal/testing/podsim"
)

// TestFastPacks: a base that is often unpacked without being kept receives a fast pack. Fast packs
// are counted and limited, and end with their bases.
func TestFastPacks(t *testing.T) {
	s := newGroups(t, podsim.New(20_000, 1), 60)
	cache := s.packer.siblings.cache
	unpackAll := func() {
		for i := range s.objects {
			m := &s.objects[i*37%len(s.objects)]
			cache.lastUnpacked = recentIDs{} // as if others had been unpacked meanwhile
			if back, err := m.dict.Unpack(nil, m.packed, len(m.raw)); err != nil || !bytes.Equal(back, m.raw) {
				t.Fatalf("%s does not come back: %v", m.name.Object, err)
			}
		}
	}
	cache.empty()
	before := s.packer.Size()
	unpackAll()
	withFastPack, sum := map[*base]bool{}, 0
	for i := range s.objects {
		if b := s.objects[i].base(); b != nil && !withFastPack[b] {
			if packed := b.counts.fastPack.Load(); packed != nil {
				withFastPack[b], sum = true, sum+len(*packed)
				if raw, err := b.dict.Unpack(nil, *packed, b.size); err != nil || len(raw) != b.size {
					t.Errorf("a fast pack does not come back: %v", err)
				}
			}
		}
	}
	if len(withFastPack) < 50 || cache.fastPackBytes != sum || s.packer.Size()-before < int64(sum) {
		t.Errorf("%d bases have fast packs, of %d bytes; %d are counted, and %d of %d in all", len(withFastPack), sum, cache.fastPackBytes, s.packer.Size()-before, before)
	}

	other := newGroups(t, podsim.New(20_000, 2), 60)
	other.packer.siblings.cache.fastPackBytes = maxFastPackBytes
	for range fastPackAfter + 1 {
		m := &other.objects[len(other.objects)-1]
		other.packer.siblings.cache.empty()
		if _, err := m.dict.Unpack(nil, m.packed, len(m.raw)); err != nil {
			t.Fatal(err)
		}
		if b := m.base(); b == nil || b.counts.fastPack.Load() != nil {
			t.Fatal("it has a fast pack though there is no room")
		}
	}
	withFastPack, s.objects = nil, nil
	afterGC(t, "no fast pack is counted, since all are gone", func() bool {
		cache.mu.Lock()
		defer cache.mu.Unlock()
		return cache.fastPackBytes == 0
	})
}
