package pack

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// held contains a packed object with its dictionary, as a caller stores them, and the raw bytes.
type held struct {
	raw    []byte
	packed string
	dict   *Dictionary
}

// take packs an object and then observes it.
func take(p *Packer, raw []byte) (h held, renewed bool) {
	packed, d := p.Pack(nil, raw)
	before := p.current.Load()
	p.Observe(raw)
	return held{raw, string(packed), d}, p.current.Load() != before
}

// TestSecondDictionary checks that a dictionary with samples from the whole list soon replaces the
// first dictionary.
func TestSecondDictionary(t *testing.T) {
	testenv.SkipUnderRace(t)
	p, sim := New(), podsim.New(3000, 1)
	type sum struct{ objects, bytes int }
	sums := map[*Dictionary]*sum{}
	for i := range sim.Len() {
		pod := sim.Pod(i)
		pod.ResourceVersion = strconv.Itoa(1000 + i)
		h, _ := take(p, withoutUID(t, wire.Protobuf, podsim.Encode(wire.Protobuf.String(), pod)))
		if sums[h.dict] == nil {
			sums[h.dict] = &sum{}
		}
		sums[h.dict].objects++
		sums[h.dict].bytes += len(h.packed)
	}
	if len(sums) != 3 || sums[nil].objects != 1 {
		t.Fatalf("%d dictionaries, and %d objects without", len(sums)-1, sums[nil].objects)
	}
	second := sums[p.current.Load()]
	if n := sim.Len() - second.objects - 1; n != dictSamples*sampleEvery {
		t.Errorf("the first %d have the first dictionary", n)
	}
	if size := second.bytes / second.objects; size > 800 {
		t.Errorf("a pod takes %d bytes", size)
	}
}

// TestNewDictionaries checks that the packer creates a dictionary from the first object, and later
// dictionaries from samples at growing intervals. Old objects must still unpack with their own
// dictionaries.
func TestNewDictionaries(t *testing.T) {
	testenv.SkipUnderRace(t)
	var all []held
	p := New()
	raws := podsim.Spread(wire.Protobuf.String(), 100)
	const second = dictSamples * sampleEvery
	for i := range 1 + (1+renewFactor)*second {
		h, renewed := take(p, raws[i%len(raws)])
		if renewed {
			all = append(all, h)
		}
		if want := i == 0 || i == second || i == (1+renewFactor)*second; renewed != want {
			t.Fatalf("after %d objects a dictionary was made: %v", i+1, renewed)
		}
	}
	for i, h := range all {
		if raw, err := h.dict.Unpack(nil, h.packed, len(h.raw)); err != nil || !bytes.Equal(raw, h.raw) {
			t.Fatalf("object %d: %v", i, err)
		}
	}
}

// TestSize checks that Size counts the samples, and then the dictionary that is created from them.
func TestSize(t *testing.T) {
	p := New()
	raw := podsim.Spread(wire.Protobuf.String(), 1)[0]
	check.Equal(t, p.Size(), 0, "bytes of nothing")
	take(p, raw)
	if n := p.Size(); n < int64(len(raw)) {
		t.Errorf("a sample of %d bytes takes %d", len(raw), n)
	}
	for range sampleEvery {
		take(p, raw)
	}
	if n := p.Size(); n < int64(len(p.current.Load().content)) || n > 64<<10 {
		t.Errorf("a dictionary of %d bytes takes %d", len(p.current.Load().content), n)
	}
}
