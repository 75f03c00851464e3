package pack

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestBaseIsNotMuchLarger checks that an object is not packed against a base that is much larger
// than the object. The base's own object may be deleted. Then the small object alone would keep the
// large base in memory.
func TestBaseIsNotMuchLarger(t *testing.T) {
	testenv.SkipUnderRace(t)
	s := newGroups(t, podsim.NewUnlike(20_000, 1), 60)
	rnd := newRand(9)
	const n = 150
	for _, size := range []int{600, 14_000, 16_000} {
		var objects []held
		alone := 0
		before := testenv.LiveBytes()
		for i := range n {
			large := []byte(noise(rnd, 30_000))
			group := fmt.Sprint("ns/g", size, "-", i)
			first := s.pack(Name{group, group + "-a"}, large)
			second := s.pack(Name{group, group + "-b"}, large[:size])
			if has := second.dict.base != nil; has != (maxLarger*size >= len(large)) {
				t.Fatalf("%d bytes have a sibling of %d: %v", size, len(large), has)
			}
			objects = append(objects, held{dict: second.dict, packed: second.packed}) // raw is freed
			plain, _ := s.packer.Pack(nil, large[:size])
			alone += len(plain)
			s.packer.Release(first.name, first.dict, first.packed)
		}
		if each := int(testenv.LiveBytes()-before) / n; each > (maxLarger+1)*alone/n {
			t.Errorf("%d bytes keep %d, alone they take %d", size, each, alone/n)
		}
		runtime.KeepAlive(objects)
	}
	runtime.KeepAlive(s)
}
