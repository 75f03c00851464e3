package codec

import (
	"bytes"
	"fmt"
	"math/rand"
	randv2 "math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestVersions changes the bytes of a version at random. Some changes make the bytes malformed.
// Each of the two decoded versions must equal Unmarshal's result. A change of one value must change
// neither the other value nor values that are decoded later.
func TestVersions(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	eachRandom(t, 1, func(typ reflect.Type, _ protoMessage, raw []byte) { versions(t, typ, raw, random, 4) })
	versions(t, reflect.TypeFor[*corev1.Pod](), pod(*podsim.New(1, 1).Pod(0)), random, 500)
}

func versions(t *testing.T, typ reflect.Type, raw []byte, random *rand.Rand, n int) {
	t.Helper()
	d := decoderFor(typ)
	for range 3 {
		_, _ = d.private(raw)
	}
	was := raw
	for range n {
		is := scrambled(raw, random)
		sameVersions(t, d, was, is)
		was = is
	}
}

// sameVersions decodes two versions together, with Decode and with DecodeShared, and compares the
// values with Unmarshal's results.
func sameVersions(t *testing.T, d *decoder, was, is []byte) {
	t.Helper()
	if !isProtobuf(was) || !isProtobuf(is) {
		return
	}
	c := New(reflect.PointerTo(d.goType))
	unmarshal := func(raw []byte) (protoMessage, error) {
		m := reflect.New(d.goType).Interface().(protoMessage)
		return m, m.Unmarshal(raw)
	}
	wantOld, oldErr := unmarshal(was)
	wantNew, newErr := unmarshal(is)
	if oldErr == nil {
		oldErr = newErr
	}
	for _, first := range []bool{true, false} {
		a, b, err := c.versions(was, is)
		if fmt.Sprint(err) != fmt.Sprint(oldErr) {
			t.Fatalf("%s: error %v, want %v", d.goType, err, oldErr)
		}
		if err != nil {
			continue
		}
		if !reflect.DeepEqual(a, wantOld) || !reflect.DeepEqual(b, wantNew) {
			t.Fatalf("%s: got\n%+v\n%+v\nwant\n%+v\n%+v", d.goType, a, b, wantOld, wantNew)
		}
		if first {
			if testenv.ScribbleOver(a); !reflect.DeepEqual(b, wantNew) {
				t.Fatalf("%s: the later version has changed with the earlier", d.goType)
			}
		} else if testenv.ScribbleOver(b); !reflect.DeepEqual(a, wantOld) {
			t.Fatalf("%s: the earlier version has changed with the later", d.goType)
		}
	}
	// In a malformed entry of a map, the value may extend into the next field, which Unmarshal
	// accepts. If the next field is shared, the value would be different. So test sharing only if
	// Marshal returns the same bytes again.
	old, err := c.DecodeShared(was, nil)
	again, _ := unmarshal(is) // Marshal changes a quantity
	if raw, errNew := again.Marshal(); err != nil || newErr != nil || errNew != nil || !bytes.Equal(raw, is) {
		return
	}
	fresh, err := c.DecodeShared(is, &Version{Raw: was, Value: old})
	if err != nil || !reflect.DeepEqual(fresh, wantNew) {
		t.Fatalf("%s: shared: got\n%+v, %v\nwant\n%+v", d.goType, fresh, err, wantNew)
	}
	if !reflect.DeepEqual(old, wantOld) {
		t.Fatalf("%s: the earlier version has changed", d.goType)
	}
}

// TestVersionsOfBigQuantities checks that two versions do not share the memory of a large quantity,
// even if the objects before them could be copied.
func TestVersionsOfBigQuantities(t *testing.T) {
	big := resource.MustParse("123456789012345678901234567890")
	p := podsim.New(1, 1).Pod(0)
	limit := resource.MustParse("1Gi")
	p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &limit}}
	ordinary := pod(*p)
	for _, change := range []func(){
		func() { p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = big },
		func() {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = limit
			p.Spec.Volumes[0].EmptyDir.SizeLimit = &big
		},
	} {
		d := decoderFor(reflect.TypeFor[*corev1.Pod]())
		for range 4 {
			if _, err := d.private(ordinary); err != nil {
				t.Fatal(err)
			}
		}
		change()
		was := pod(*p)
		p.ResourceVersion += "0"
		for range 2 {
			a, b, err := New(reflect.TypeFor[*corev1.Pod]()).versions(was, pod(*p))
			check.NoError(t, err)
			old, fresh := a.(*corev1.Pod), b.(*corev1.Pod)
			old.Spec.Containers[0].Resources.Requests.Cpu().AsDec().SetScale(7)
			old.Spec.Volumes[0].EmptyDir.SizeLimit.AsDec().SetScale(7)
			if !equality.Semantic.DeepEqual(fresh.Spec, p.Spec) {
				t.Fatalf("the later version has changed with the earlier: %v, %v", fresh.Spec.Containers[0].Resources.Requests, fresh.Spec.Volumes[0].EmptyDir)
			}
		}
	}
}

// TestVersionsOfUnlikePods checks versions of pods that no template fits, with changed, inserted
// and removed fields.
func TestVersionsOfUnlikePods(t *testing.T) {
	sim, random := podsim.NewUnlike(4000, 1), rand.New(rand.NewSource(1))
	d := decoderFor(reflect.TypeFor[*corev1.Pod]())
	for i := 0; i < sim.Len(); i += 20 { // one pod of each workload
		p := sim.Pod(i)
		was := pod(*p)
		p.ResourceVersion += "1"
		if c := &p.Spec.Containers[0]; i%40 == 0 {
			c.Env = append(c.Env, corev1.EnvVar{Name: "NEW", Value: p.Name})
		} else {
			c.Env = nil
		}
		is := pod(*p)
		sameVersions(t, d, was, is)
		for range 5 {
			sameVersions(t, d, was, scrambled(is, random))
		}
	}
}

// TestRepeatedKeys checks maps in which several entries have the same key. The decoder must use the
// last of these entries, whichever of them differs from the template.
func TestRepeatedKeys(t *testing.T) {
	labels := func(entries ...string) []byte {
		var meta []byte
		for i := 0; i < len(entries); i += 2 {
			meta = append(meta, message1(11, entry(entries[i], []byte(entries[i+1])))...)
		}
		return message1(1, meta)
	}
	typ := reflect.TypeFor[*corev1.Pod]()
	for _, first := range [][]byte{labels("a", "1", "a", "2"), labels("a", "1", "b", "2")} {
		versions(t, typ, first, rand.New(rand.NewSource(1)), 0)
		for _, is := range [][]byte{labels("a", "3", "a", "2"), labels("a", "1", "a", "3"), labels("b", "1", "a", "2"), labels("a", "1", "b", "3")} {
			same(t, decoderFor(typ), first)
			same(t, decoderFor(typ), is)
			sameVersions(t, decoderFor(typ), first, is)
			sameVersions(t, decoderFor(typ), is, first)
		}
	}
}

func FuzzVersions(f *testing.F) {
	d := decoderFor(reflect.TypeFor[*corev1.Pod]())
	sim, random := podsim.New(2, 1), randv2.New(randv2.NewPCG(1, 2))
	p := sim.Pod(0)
	was := pod(*p)
	for range 3 {
		_, _ = d.private(was)
	}
	podsim.Touch(p, random)
	f.Add(was, pod(*p))
	f.Add(was, pod(*sim.Pod(1)))
	for _, raw := range unusual {
		f.Add(was, raw)
		f.Add(raw, raw)
	}
	f.Fuzz(func(t *testing.T, was, is []byte) { sameVersions(t, d, was, is) })
}

// scrambled returns a modified copy of the bytes.
func scrambled(raw []byte, random *rand.Rand) []byte {
	changed := slices.Clone(raw)
	switch random.Intn(20) {
	case 0:
		changed = changed[:random.Intn(len(changed)+1)]
	case 1:
		changed = append(changed, message1(protowire.Number(1+random.Intn(4)), nil)...)
	default:
		for range min(len(changed), 1+random.Intn(3)) {
			changed[random.Intn(len(changed))] ^= byte(1) << random.Intn(8)
		}
	}
	return changed
}
