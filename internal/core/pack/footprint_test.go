package pack

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestFootprint checks that the footprint is close to the memory that the groups use in addition to
// their objects. It checks this while the objects are stored, and again after they were freed.
func TestFootprint(t *testing.T) {
	testenv.SkipUnderRace(t)
	p := New()
	s := &groups{packer: p}
	rnd := newRand(9)
	const n = 20_000
	common := noise(rnd, 60)
	for i := range n {
		group, body := fmt.Sprint("ns/g", i), common+noise(rnd, 140)
		for j := range 3 {
			s.add(Name{group, fmt.Sprint(group, "-", j)}, []byte(body+fmt.Sprint(j)))
		}
	}
	k := p.siblings
	bases := 0
	for _, d := range k.groups {
		if d.Value() != nil {
			bases++
		}
	}
	if bases < n*9/10 || k.bases != bases {
		t.Errorf("%d bases, counted are %d", bases, k.bases)
	}
	full, counted := testenv.LiveBytes(), k.footprint()
	packed := 0
	for i := range s.objects {
		packed += (len(s.objects[i].packed) + 15) &^ 15
	}
	s.objects = nil
	afterGC(t, "all bases have ended", func() bool { return k.count() == 0 })
	empty := testenv.LiveBytes()
	// In s, an object uses 72 bytes and its name 40. These bytes are not memory of siblings.
	if took := full - empty - int64(packed); counted < took/4 || counted > took*2 {
		t.Errorf("groups count for %d bytes, and take some %d", counted, took)
	}
	left := k.footprint()
	p.siblings = newSiblings()
	if took := empty - testenv.LiveBytes(); left > took+1<<18 || took > left+1<<18 {
		t.Errorf("without objects groups count for %d bytes, and take %d", left, took)
	}
	runtime.KeepAlive(s)
}

// count returns the number of live bases.
func (k *siblings) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.bases
}

// TestFootprintOfPins checks a base whose own object changed or was deleted. The footprint must
// count the base until no other object is packed against it.
func TestFootprintOfPins(t *testing.T) {
	testenv.SkipUnderRace(t)
	rnd := newRand(9)
	const n = 50
	for what, replace := range map[string]func(s *groups, base *member, body string){
		"another version": func(s *groups, base *member, body string) {
			s.pack(base.name, []byte(body+"another"))
			s.packer.Release(base.name, base.dict, base.packed)
		},
		"gone": func(s *groups, base *member, _ string) { s.packer.Release(base.name, base.dict, base.packed) },
		"others are unlike": func(s *groups, base *member, _ string) {
			for i := range maxMisses {
				s.pack(Name{base.name.Group, fmt.Sprint("unlike", i)}, []byte(noise(rnd, 3000)))
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := &groups{packer: New()}
			for i := range 80 { // for a dictionary
				s.add(Name{"ns/g", fmt.Sprint(i)}, fmt.Append(nil, "something", noise(newRand(1), 300), i))
			}
			k := s.packer.siblings
			pinned := 0
			for i := range n {
				body := noise(rnd, 2000)
				name := Name{fmt.Sprint("ns/h", i), "a"}
				first := *s.add(name, []byte(body+"1"))
				if second := s.add(Name{name.Group, "b"}, []byte(body+"2")); second.base() == nil {
					t.Fatal("there is no base")
				}
				replace(s, &first, body)
				pinned += len(first.packed)
			}
			if k.pins != int64(pinned) {
				t.Errorf("%d bytes are pinned, want %d", k.pins, pinned)
			}
			s.objects = nil
			afterGC(t, "all bases have ended", func() bool { return k.count() == 0 })
			check.Equal(t, k.pins, 0, "bytes are pinned without a sibling")
		})
	}
}
