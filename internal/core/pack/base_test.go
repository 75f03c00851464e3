package pack

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"testing"

	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestIdleBasesAreLetGo: an unused base is not kept unpacked for long; a used one is.
func TestIdleBasesAreLetGo(t *testing.T) {
	s := newGroups(t, podsim.NewUnlike(20_000, 1), 20)
	cache := s.packer.siblings.cache
	unpack := func(m *member) {
		if back, err := m.dict.Unpack(nil, m.packed, len(m.raw)); err != nil || !bytes.Equal(back, m.raw) {
			t.Fatalf("%s does not come back: %v", m.name.Object, err)
		}
	}
	loaded := func() (n, bytes int) {
		cache.mu.Lock()
		defer cache.mu.Unlock()
		return len(cache.loaded), cache.bytes
	}
	for range 2 {
		for i := range s.objects {
			unpack(&s.objects[i])
		}
		n, _ := loaded()
		if n < 2 {
			t.Fatalf("%d bases are held", n)
		}
		last := &s.objects[len(s.objects)-1]
		for i := range s.objects {
			if m := &s.objects[i]; m.base() != nil {
				last = m
			}
		}
		afterGC(t, "one base is held while one is used", func() bool {
			unpack(last)
			n, _ := loaded()
			return n == 1 && last.base().raw.Load() != nil
		})
		afterGC(t, "no base is held while none is used", func() bool {
			n, _ := loaded()
			return n == 0
		})
		if _, bytes := loaded(); bytes != 0 {
			t.Errorf("%d bytes are counted for nothing", bytes)
		}
	}
}

// TestBasesOfSeveralReaders: readers at different places find their bases unpacked.
func TestBasesOfSeveralReaders(t *testing.T) {
	testenv.SkipUnderRace(t)
	// A garbage collection would drop some that are not used again soon.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	s := newGroups(t, podsim.NewUnlike(20_000, 1), 60)
	n := len(s.objects)
	for _, readers := range []int{1, 2, 4} {
		s.packer.siblings.cache.empty()
		found, of := 0, 0
		for i := range n {
			m := &s.objects[i%readers*(n/readers)+i/readers]
			if m.base() == nil {
				continue
			}
			of++
			if m.base().raw.Load() != nil {
				found++
			}
			if back, err := m.dict.Unpack(nil, m.packed, len(m.raw)); err != nil || !bytes.Equal(back, m.raw) {
				t.Fatalf("object %d does not come back: %v", i, err)
			}
		}
		if found*10 < of*8 {
			t.Errorf("%d readers: %d of %d bases were held", readers, found, of)
		}
	}
}

// empty drops all bases.
func (s *baseCache) empty() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.loaded {
		b.raw.Store(nil)
	}
	s.loaded, s.bytes = nil, 0
	s.lastUnpacked = recentIDs{}
}

// TestLoadedBasesAreBounded: the indexes of many small bases do not exceed the limit.
func TestLoadedBasesAreBounded(t *testing.T) {
	testenv.SkipUnderRace(t)
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a garbage collection would drop some
	s := newGroups(t, podsim.NewUnlike(20_000, 1), 20)
	rnd := newRand(9)
	for g := range 300 {
		body := noise(rnd, 200)
		for i := range 5 {
			s.add(Name{fmt.Sprint("ns/g", g), fmt.Sprint(i)}, fmt.Append(nil, body, i))
		}
	}
	k := s.packer.siblings
	sum := 0
	for _, b := range k.cache.loaded {
		if u := b.raw.Load(); u != nil {
			sum += cap(u.bytes)
			if u.index != nil {
				sum += 2 << indexBits
			}
		}
	}
	if sum > maxLoaded || sum < maxLoaded/2 {
		t.Errorf("%d bytes of bases and their indexes", sum)
	}
	if n := k.footprint(); n < int64(sum) {
		t.Errorf("they count for %d of %d bytes", n, sum)
	}
}

// TestNothingIsNoBase: an empty object is packed to a string of one byte, to which no weak pointer
// may point.
func TestNothingIsNoBase(t *testing.T) {
	p := New()
	for i := range 30 { // until there is a dictionary
		raw, name := bytes.Repeat([]byte("x"), 100), Name{"full", fmt.Sprint(i)}
		packed, d := p.PackSibling(nil, raw, name)
		p.Note(name, d, string(packed), len(raw))
		p.Observe(d, raw, len(packed))
	}
	for i := range 3 {
		name := Name{"empty", fmt.Sprint(i)}
		packed, d := p.PackSibling(nil, nil, name)
		held := string(packed)
		p.Note(name, d, held, 0)
		if raw, err := d.Unpack(nil, held, 0); err != nil || len(raw) != 0 {
			t.Errorf("%q, %v", raw, err)
		}
		p.Release(name, d, held)
	}
}
