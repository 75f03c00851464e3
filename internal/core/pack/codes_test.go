package pack

import (
	"fmt"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// TestCodesOfWhatIsTypical: if the first objects are many of one untypical group, the others pack
// as well as without them.
func TestCodesOfWhatIsTypical(t *testing.T) {
	size := func(odd int) int {
		s := &groups{packer: New()}
		raw := []byte(nil)
		if odd > 0 {
			pod, err := podsim.New(50_000, 5).Pod(3).Marshal()
			check.NoError(t, err)
			raw = pod
		}
		for i := range odd {
			s.add(Name{"a/x", fmt.Sprint(i)}, append(raw[:len(raw):len(raw)], byte(i)))
		}
		if odd > 0 && s.packer.siblings.learner.codes.Load().model == nil {
			t.Fatal("one group has no codes")
		}
		sim := podsim.NewUnlike(40_000, 1)
		for i := range 4000 { // the second dictionary has learned from them
			pod := sim.Pod(i/20*200 + i%20)
			raw, err := pod.Marshal()
			check.NoError(t, err)
			s.add(Name{pod.Namespace + "/" + pod.GenerateName, pod.Name}, raw)
		}
		n, sum := 0, 0
		for i := range s.objects[odd+3000:] {
			if m := &s.objects[odd+3000+i]; m.base() != nil {
				n, sum = n+1, sum+len(m.packed)
			}
		}
		return sum / max(n, 1)
	}
	if good, bad := size(0), size(80); bad*20 > good*21 {
		t.Errorf("%d bytes each, and %d when the first are not typical", good, bad)
	}
}

// TestCodesOfANewDictionary: a new dictionary brings new codes for new bases; packed objects are
// unpacked with the old ones.
func TestCodesOfANewDictionary(t *testing.T) {
	s := newGroups(t, podsim.NewUnlike(20_000, 1), 20)
	first := s.packer.siblings.learner.codes.Load()
	s.packer.siblings.learner.relearn()
	sim := podsim.NewUnlike(20_000, 2)
	for i := range 500 {
		pod := sim.Pod(i)
		raw, err := pod.Marshal()
		check.NoError(t, err)
		s.add(Name{"of another time/" + pod.GenerateName, pod.Name}, raw)
	}
	if s.packer.siblings.learner.codes.Load() == first {
		t.Error("there are no new codes")
	}
	of := map[*codes]int{}
	for i := range s.objects {
		m := &s.objects[i]
		if m.base() != nil {
			of[m.base().codes]++
		}
		if back, err := m.dict.Unpack(nil, m.packed, len(m.raw)); err != nil || string(back) != string(m.raw) {
			t.Fatalf("object %d does not come back: %v", i, err)
		}
	}
	if len(of) < 2 {
		t.Errorf("%d codes are in use", len(of))
	}
}
