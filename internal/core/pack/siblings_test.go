package pack

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestSiblings packs the replicas of workloads that have nothing in common. Replicas that are
// packed against each other must need at most a seventh of the bytes that they need when packed
// separately. They must be unpacked unchanged.
func TestSiblings(t *testing.T) {
	testenv.SkipUnderRace(t)
	s := newGroups(t, podsim.NewUnlike(20_000, 1), 60)
	siblings, size, alone := 0, 0, 0
	for i := range s.objects {
		m := &s.objects[i]
		back, err := m.dict.Unpack([]byte("before"), m.packed, len(m.raw))
		if err != nil || string(back) != "before"+string(m.raw) {
			t.Fatalf("object %d does not come back: %v", i, err)
		}
		if m.dict != nil && m.dict.base != nil {
			siblings++
			size += len(m.packed)
			plain, _ := s.packer.Pack(nil, m.raw)
			alone += len(plain)
		}
	}
	// Of 20 replicas, four are dissimilar to the others, and one is the base.
	if want := 60*15 - 100; siblings < want {
		t.Errorf("%d objects have a sibling, want %d", siblings, want)
	}
	if size*7 > alone {
		t.Errorf("siblings take %d bytes, %d each, and alone %d", size, size/siblings, alone)
	}
}

// TestSiblingsThatBecomeOthers checks that a group gets a new base when its objects change. Objects
// that were packed against the old base must still be unpacked correctly.
func TestSiblingsThatBecomeOthers(t *testing.T) {
	s := newGroups(t, podsim.NewUnlike(20_000, 1), 20)
	sim := podsim.NewUnlike(100, 7)
	var last *member
	for i := range 12 {
		pod := sim.Pod(40 + i) // the pods are of one workload, and a few are dissimilar
		raw, err := pod.Marshal()
		check.NoError(t, err)
		last = s.add(Name{s.objects[0].name.Group, pod.Name}, raw)
	}
	if last.dict == nil || last.dict.base == nil {
		t.Error("the group has no new base")
	}
	for i := range s.objects {
		m := &s.objects[i]
		if back, err := m.dict.Unpack(nil, m.packed, len(m.raw)); err != nil || !bytes.Equal(back, m.raw) {
			t.Fatalf("object %d does not come back: %v", i, err)
		}
	}
}

// TestSiblingsPinNothing checks that a base is freed after the last object that was packed against
// it.
func TestSiblingsPinNothing(t *testing.T) {
	s := newGroups(t, podsim.NewUnlike(20_000, 1), 40)
	k := s.packer.siblings
	alive := func() (n int) {
		runtime.GC()
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, d := range k.groups {
			if d.Value() != nil {
				n++
			}
		}
		return n
	}
	if n := alive(); n < 30 {
		t.Errorf("%d groups have a base", n)
	}
	s.objects = nil
	check.Equal(t, alive(), 0, "bases have no sibling")
	runtime.KeepAlive(s)
}

// TestConcurrentSiblings packs and unpacks in several goroutines.
func TestConcurrentSiblings(t *testing.T) {
	s := newGroups(t, podsim.NewUnlike(20_000, 1), 30)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range s.objects {
				m := &s.objects[(i*37+g*11)%len(s.objects)]
				packed, d := s.packer.PackSibling(nil, m.raw, m.name)
				s.packer.Note(m.name, d, string(packed), len(m.raw))
				back, err := d.Unpack(nil, string(packed), len(m.raw))
				if err != nil || !bytes.Equal(back, m.raw) {
					t.Errorf("object %d does not come back: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// FuzzUnpackSibling checks that damaged bytes never cause a panic: they cause an error, or are
// unpacked to other bytes.
func FuzzUnpackSibling(f *testing.F) {
	s := newGroups(f, podsim.NewUnlike(2_000, 1), 10)
	var d *Dictionary
	for i := range s.objects {
		if m := &s.objects[i]; m.dict != nil && m.dict.base != nil && i%20 == 15 {
			d = m.dict
			f.Add([]byte(m.packed), len(m.raw))
		}
	}
	if d == nil {
		f.Fatal("nothing has a sibling")
	}
	f.Fuzz(func(t *testing.T, packed []byte, size int) {
		if size < 0 || size > 1<<20 {
			return
		}
		if back, err := d.unpack(nil, packed, size); err == nil && len(back) != size {
			t.Fatalf("%d bytes, want %d", len(back), size)
		}
	})
}

// TestSiblingsOfTwoKinds checks that one dissimilar object in a group does not affect the group's
// other objects. If objects of two kinds alternate, the objects of one kind must have siblings.
func TestSiblingsOfTwoKinds(t *testing.T) {
	testenv.SkipUnderRace(t)
	s := newGroups(t, podsim.NewUnlike(20_000, 1), 60)
	rnd := newRand(4)
	kinds := []string{noise(rnd, 3000), noise(rnd, 3000)}
	n := 0
	for i := range 200 {
		if m := s.add(Name{"ns/g", fmt.Sprint(i)}, fmt.Append(nil, kinds[i%2], i)); m.dict.base != nil {
			n++
		}
	}
	if n < 90 {
		t.Errorf("%d of 200 have a sibling", n)
	}
}

// TestSiblingsOfOtherContent checks that the base of a group is replaced after a few objects when
// all objects change completely.
func TestSiblingsOfOtherContent(t *testing.T) {
	testenv.SkipUnderRace(t)
	s := newGroups(t, podsim.NewUnlike(20_000, 1), 60)
	rnd := newRand(4)
	for range 3 {
		content, n := noise(rnd, 3000), 0
		for i := range 20 {
			if m := s.add(Name{"ns/g", fmt.Sprint(i)}, fmt.Append(nil, content, i)); m.dict.base != nil {
				n++
			}
		}
		if n != 20-maxMisses && n != 19 { // the first content replaces no base, so 19
			t.Errorf("%d of 20 have a sibling", n)
		}
	}
}

// TestSiblingsThatChange changes every pod once, in random order of keys. It checks that packed
// objects stay small, including the old versions that remain in memory as bases.
func TestSiblingsThatChange(t *testing.T) {
	testenv.SkipUnderRace(t)
	for _, tc := range []struct {
		what         string
		sim          *podsim.Pods
		most         int // maximum bytes per object at the end
		before, then int // minimum percentage of objects with a base: after the list, and at the end
	}{
		{"unlike", podsim.NewUnlike(50_000, 1), 1250, 70, 70},
		{"alike", podsim.New(50_000, 1), 350, 90, 90},
	} {
		t.Run(tc.what, func(t *testing.T) {
			s := newGroups(t, tc.sim, 250)
			n := len(s.objects)
			sum := func() (size, percent int) {
				for i := range s.objects {
					size += len(s.objects[i].packed)
					if s.objects[i].base() != nil {
						percent++
					}
				}
				return (size + int(s.packer.siblings.pins)) / n, percent * 100 / n
			}
			listed, before := sum()
			for i := range n {
				m := &s.objects[i*1237%n]
				raw := bytes.Replace(m.raw, []byte("123456"), []byte("123457"), 1)
				packed, d := s.packer.PackSibling(nil, raw, m.name)
				old := *m
				m.raw, m.packed, m.dict = raw, string(packed), d
				s.packer.Note(m.name, d, m.packed, len(raw))
				s.packer.Observe(raw)
				s.packer.Release(m.name, old.dict, old.packed)
			}
			changed, then := sum()
			t.Logf("%d objects: listed %d bytes each, %d %% with a sibling; each changed once %d, %d %%", n, listed, before, changed, then)
			if before < tc.before || then < tc.then {
				t.Errorf("%d %% have a sibling in the order of the keys, %d %% under change", before, then)
			}
			if changed > tc.most {
				t.Errorf("%d bytes each", changed)
			}
		})
	}
}

// TestNothingIsNoBase checks that empty objects, which are packed to one byte, are unpacked
// unchanged.
func TestNothingIsNoBase(t *testing.T) {
	p := New()
	for i := range 30 { // until the packer has a dictionary
		raw, name := bytes.Repeat([]byte("x"), 100), Name{"full", fmt.Sprint(i)}
		packed, d := p.PackSibling(nil, raw, name)
		p.Note(name, d, string(packed), len(raw))
		p.Observe(raw)
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

// TestBasesStayUnpacked unpacks objects in the order of their keys, and checks that the bases of
// most of them are already unpacked in a buffer.
func TestBasesStayUnpacked(t *testing.T) {
	testenv.SkipUnderRace(t) // the race detector makes a sync.Pool drop values at random
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	s := newGroups(t, podsim.NewUnlike(20_000, 1), 60)
	found, of := 0, 0
	for i := range s.objects {
		m := &s.objects[i]
		if m.base() == nil {
			continue
		}
		buf := baseBuffers.Get().(*baseBuffer)
		if of++; buf.of == m.base().id {
			found++
		}
		baseBuffers.Put(buf)
		if back, err := m.dict.Unpack(nil, m.packed, len(m.raw)); err != nil || !bytes.Equal(back, m.raw) {
			t.Fatalf("object %d does not come back: %v", i, err)
		}
	}
	if found*10 < of*8 {
		t.Errorf("%d of %d bases were unpacked", found, of)
	}
}

// TestUnpackRefuses checks that Unpack returns ErrCorrupt if the size is wrong, or if the bytes
// were not packed with the dictionary.
func TestUnpackRefuses(t *testing.T) {
	s := newGroups(t, podsim.NewUnlike(20_000, 1), 10)
	var plain, sibling *member
	for i := range s.objects {
		switch m := &s.objects[i]; {
		case m.base() != nil:
			sibling = m
		case m.dict != nil:
			plain = m
		}
	}
	for what, unpack := range map[string]func() ([]byte, error){
		"nothing":             func() ([]byte, error) { return plain.dict.Unpack(nil, "", 1) },
		"no block":            func() ([]byte, error) { return plain.dict.Unpack(nil, "\x01\xff\xff", 1) },
		"another size":        func() ([]byte, error) { return plain.dict.Unpack(nil, plain.packed, 1) },
		"no sibling":          func() ([]byte, error) { return sibling.dict.Unpack(nil, plain.packed, 1) },
		"another size of one": func() ([]byte, error) { return sibling.dict.Unpack(nil, sibling.packed, 1) },
	} {
		if raw, err := unpack(); !errors.Is(err, ErrCorrupt) || len(raw) > 0 {
			t.Errorf("%s: %d bytes, %v", what, len(raw), err)
		}
	}
	made := func() any { return new(int) }
	if plain.dict.Attached(made) != plain.dict.Attached(made) {
		t.Error("two values are attached to one dictionary")
	}
}
