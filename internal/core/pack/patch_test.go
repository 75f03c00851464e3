package pack

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/core/compress"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestPatch patches difficult inputs, and typical changes of an object.
func TestPatch(t *testing.T) {
	rnd := newRand(4)
	base := []byte(noise(rnd, 9000))
	with := func(at, cut int, put string) []byte {
		return append(append(bytes.Clone(base[:at]), put...), base[at+cut:]...)
	}
	for _, tc := range []struct {
		what string
		raw  []byte
		most int // maximum size of the patch; 0 means too different from the base
	}{
		{"the same", base, 10},
		{"a number changed", with(4000, 6, "123457"), 25},
		{"a byte more, and less", append(with(4000, 1, "ab")[:6000], base[6000:]...), 35},
		{"a piece less", with(4000, 200, ""), 50},
		{"a piece more", with(4000, 0, noise(rnd, 70)), 110},
		{"the end is another", with(8900, 100, noise(rnd, 50)), 80},
		{"the beginning is another", with(0, 100, noise(rnd, 50)), 80},
		{"shifted by one", append([]byte("+"), base...), 60},
		{"one changed in the middle", with(4000, 1, "\n"), 40},
		{"the end of it", base[5000:], 60},
		{"two pieces more", append(with(4000, 0, noise(rnd, 40))[:6000], append([]byte(noise(rnd, 40)), base[5960:]...)...), 160},
		{"shorter than a seed", base[:5], 10},
		{"longer than an object may be", bytes.Repeat(base, 4), 0},
		{"another", []byte(noise(rnd, 9000)), 0},
		{"nothing", nil, 1},
	} {
		patch, ok := AppendPatch([]byte("before"), base, tc.raw, len(tc.raw)/farRatio+8)
		if ok != (tc.most > 0) || ok && len(patch)-len("before") > tc.most {
			t.Errorf("%s: %d bytes, %v, want at most %d", tc.what, len(patch), ok, tc.most)
		}
		if ok {
			comesBack(t, base, tc.raw, patch[len("before"):])
		}
	}
}

// TestPatchOfVersions checks that a patch for a typical change of a pod is small.
func TestPatchOfVersions(t *testing.T) {
	testenv.SkipUnderRace(t)
	for what, most := range map[string]int{"version": 40, "ready": 200, "label": 70} {
		was, is := versionsOf(t, podsim.New(50_000, 1).Pod(77), what)
		patch, ok := AppendPatch(nil, was, is, 1000)
		if !ok || len(patch) > most {
			t.Errorf("%s: %d bytes, %v, want at most %d", what, len(patch), ok, most)
		}
		if back, err := ApplyPatch(nil, was, string(patch), len(is)); err != nil || !bytes.Equal(back, is) {
			t.Errorf("%s: it does not come back: %v", what, err)
		}
	}
}

// TestPatchBound checks that a patch never exceeds its maximum size.
func TestPatchBound(t *testing.T) {
	rnd := newRand(5)
	base := []byte(noise(rnd, 500))
	raw := append(append(bytes.Clone(base[:200]), noise(rnd, 100)...), base[300:]...)
	whole, _ := AppendPatch(nil, base, raw, 500)
	for most := range 200 {
		patch, ok := AppendPatch(nil, base, raw, most)
		if ok != (most >= len(whole)) || ok && len(patch) > most {
			t.Fatalf("at most %d of %d bytes: %d, %v", most, len(whole), len(patch), ok)
		}
	}
}

// TestApplyPatchRefuses checks that ApplyPatch returns ErrCorrupt if the size is wrong, the base is
// too short, or the patch is cut off.
func TestApplyPatchRefuses(t *testing.T) {
	base := []byte(noise(newRand(6), 500))
	raw := append(bytes.Clone(base[:499]), '+')
	patch, _ := AppendPatch(nil, base, raw, 500)
	for what, got := range map[string]error{
		"another size":   second(ApplyPatch(nil, base, string(patch), len(raw)-1)),
		"a shorter base": second(ApplyPatch(nil, base[:100], string(patch), len(raw))),
		"half a patch":   second(ApplyPatch(nil, base, string(patch[:len(patch)/2]), len(raw))),
		"no patch":       second(ApplyPatch(nil, base, "", len(raw))),
	} {
		if !errors.Is(got, ErrCorrupt) {
			t.Errorf("%s: %v", what, got)
		}
	}
}

func second(_ []byte, err error) error { return err }

// comesBack checks that decodeBlock and S2 decode a block to raw.
func comesBack(t *testing.T, base, raw, block []byte) {
	t.Helper()
	if back, ok := decodeBlock([]byte("before"), base, block, len(raw)); !ok || string(back) != "before"+string(raw) {
		t.Fatalf("%d bytes do not come back against %d", len(raw), len(base))
	}
	if len(base) < compress.MinDictBytes {
		return
	}
	dict := compress.NewDict(append(bytes.Clone(base), make([]byte, 16)...)[:len(base)])
	if dict == nil {
		return
	}
	if back, err := dict.Decode(nil, block); err != nil || !bytes.Equal(back, raw) {
		t.Fatalf("S2 does not decode %q against %q: %v", raw, base, err)
	}
}

// FuzzPatch checks that a patch restores any object unchanged.
func FuzzPatch(f *testing.F) {
	f.Add([]byte("pod-a is on node-1 since 10:00 and has 3 containers"), []byte("pod-a is on node-1 since 10:30 and has 2 containers"))
	f.Add([]byte("pod-a is on node-1 since 10:00 and has 3 containers"), []byte("pod-bc is on node-17 since 10:30 and has 3 containers"))
	f.Add([]byte{}, []byte("there is no base"))
	f.Add(bytes.Repeat([]byte("again "), 60), bytes.Repeat([]byte("again and "), 90))
	f.Fuzz(func(t *testing.T, base, raw []byte) {
		patch, ok := AppendPatch(nil, base, raw, 2*len(raw)+10)
		if ok != (len(base) <= maxSibling && len(raw) <= maxSibling) {
			t.Fatalf("%d bytes against %d: %v", len(raw), len(base), ok)
		}
		if ok {
			comesBack(t, base, raw, patch)
		}
	})
}

// versionsOf returns the bytes of a pod before and after a change, without the uid.
func versionsOf(tb testing.TB, pod *corev1.Pod, change string) (was, is []byte) {
	pod.ResourceVersion = "1234567"
	setReady := func(status corev1.ConditionStatus, reason, message string) {
		for i := range pod.Status.Conditions {
			if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
				c.Status, c.Reason, c.Message = status, reason, message
			}
		}
		pod.Status.ContainerStatuses[0].Ready = status == corev1.ConditionTrue
	}
	setReady(corev1.ConditionTrue, "", "")
	was = withoutUID(tb, wire.Protobuf, podsim.Encode(wire.Protobuf.String(), pod))
	pod.ResourceVersion = "1239876"
	switch change {
	case "ready":
		setReady(corev1.ConditionFalse, "ContainersNotReady", "containers with unready status: [app]")
	case "label":
		pod.Labels["app.kubernetes.io/version"] = "v1.2.3"
	}
	return was, withoutUID(tb, wire.Protobuf, podsim.Encode(wire.Protobuf.String(), pod))
}

// BenchmarkPatch compares patching with packing with a dictionary.
func BenchmarkPatch(b *testing.B) {
	for _, of := range []struct {
		what string
		sim  *podsim.Pods
	}{{"alike", podsim.New(50_000, 1)}, {"unlike", podsim.NewUnlike(50_000, 1)}} {
		d := newDictionary([][]byte{podsim.Encode(wire.Protobuf.String(), of.sim.Pod(1)), podsim.Encode(wire.Protobuf.String(), of.sim.Pod(2))})
		for _, change := range []string{"version", "ready", "label"} {
			was, is := versionsOf(b, of.sim.Pod(rand.IntN(50_000)), change)
			made, _ := AppendPatch(nil, was, is, len(is))
			patch := string(made)
			b.Run(of.what+"/"+change+"/patch", func(b *testing.B) {
				var dst []byte
				for b.Loop() {
					dst, _ = AppendPatch(dst[:0], was, is, len(is))
				}
				b.ReportMetric(float64(len(dst)), "patch-B")
			})
			b.Run(of.what+"/"+change+"/apply", func(b *testing.B) {
				var dst []byte
				for b.Loop() {
					dst, _ = ApplyPatch(dst[:0], was, patch, len(is))
				}
			})
			b.Run(of.what+"/"+change+"/pack", func(b *testing.B) {
				var dst []byte
				for b.Loop() {
					dst = d.pack(dst[:0], is)
				}
				b.ReportMetric(float64(len(dst)), "packed-B")
			})
			packed := d.pack(nil, is)
			b.Run(of.what+"/"+change+"/unpack", func(b *testing.B) {
				var dst []byte
				for b.Loop() {
					dst, _ = d.unpack(dst[:0], packed, len(is))
				}
			})
		}
	}
}
