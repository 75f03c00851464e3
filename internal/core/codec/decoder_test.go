package codec

import (
	"fmt"
	"math/rand"
	randv2 "math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/equality"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// private and shared decode as Codec.Decode and Codec.DecodeShared do.
func (d *decoder) private(raw []byte) (any, error) { return d.unmarshal(raw, false, nil) }
func (d *decoder) shared(raw []byte) (any, error)  { return d.unmarshal(raw, true, nil) }

func (d *decoder) versions(was, is []byte) (old, fresh any, err error) {
	c := New(reflect.PointerTo(d.goType))
	c.protobuf = d
	return c.DecodeUpdate(nil, was, is)
}

// allTypes returns all types of client-go's scheme that protobuf can encode, in a fixed order.
func allTypes() []reflect.Type {
	var out []reflect.Type
	seen := map[reflect.Type]bool{}
	for _, t := range scheme.Scheme.AllKnownTypes() {
		if p := reflect.PointerTo(t); !seen[p] && p.Implements(reflect.TypeFor[protoMessage]()) {
			seen[p] = true
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b reflect.Type) int {
		return strings.Compare(a.Elem().PkgPath()+a.String(), b.Elem().PkgPath()+b.String())
	})
	return out
}

// TestEveryType compares decoded random values of every built-in type with the results of the
// type's Unmarshal.
func TestEveryType(t *testing.T) {
	fill := fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs), rand.NewSource(1), scheme.Codecs).NilChance(0.3).NumElements(0, 3)
	for _, typ := range allTypes() {
		for range 3 {
			object := reflect.New(typ.Elem()).Interface().(protoMessage)
			fill.Fill(object)
			raw, err := object.Marshal()
			check.NoError(t, err)
			same(t, typ, raw)
		}
	}
}

// unusual contains bytes that a Go encoder does not write, and malformed bytes.
var unusual = map[string][]byte{
	"empty":                 nil,
	"repeated, in two ways": message1(2, append(message1(2, []byte("aaaaaaaa")), append([]byte{0x92, 0, 8}, "\x0a\x06bbbbbb"...)...)),
	"twice":                 pod(corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "b"}}),
	"out of order":          {0x12, 0, 0x0a, 0},
	"cut":                   {0x0a, 3, 0x0a, 9, 'a'},
	"field 0":               {0x02, 0},
	"a group":               {0x0b, 0x0c},
	"an unknown group":      {0xfb, 0x01, 0xfc, 0x01},
	"another wire type":     {0x08, 1},
	"an unknown field":      {0xfa, 0x01, 1, 'x'},
	"unknown, twice":        {0xfa, 0x01, 1, 'x', 0xfa, 0x01, 1, 'x'},
	"a long varint":         {0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
	"an endless varint":     {0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
	"a bad quantity":        message1(2, message1(2, message1(8, message1(1, entry("cpu", message1(1, []byte("one"))))))),
	"an entry, reversed":    message1(1, message1(11, []byte{0x12, 1, 'v', 0x0a, 1, 'k'})),
	"an entry, no key":      message1(1, message1(11, []byte{0x12, 1, 'v'})),
	"an entry, no value":    message1(1, message1(11, []byte{0x0a, 1, 'k'})),
	"a time with nanos":     message1(1, message1(8, []byte{0x08, 1, 0x10, 2})),
	"a time of nothing":     message1(1, message1(8, nil)),
	"a time, cut":           message1(1, message1(8, []byte{0x08})),
	"managed fields of 0":   message1(1, message1(17, message1(7, nil))),
}

// message1 returns an encoded protobuf field whose value is a block of bytes. entry returns an
// encoded entry of a map.
func message1(number protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
}

func entry(key string, value []byte) []byte {
	return append(message1(1, []byte(key)), message1(2, value)...)
}

func pod(pods ...corev1.Pod) (raw []byte) {
	for _, p := range pods {
		b, err := p.Marshal()
		if err != nil {
			panic(err)
		}
		raw = append(raw, b...)
	}
	return raw
}

// same checks that private and shared return the same values and errors as Unmarshal. It decodes
// raw several times, because sharing and shapes start at the second occurrence, and plans at the
// third.
func same(t *testing.T, typ reflect.Type, raw []byte) {
	t.Helper()
	want := reflect.New(typ.Elem()).Interface().(protoMessage)
	wantErr := want.Unmarshal(raw)
	d := decoderFor(typ)
	for i, decode := range []func([]byte) (any, error){
		d.private, d.private, d.private, d.private, d.shared, d.shared, d.shared,
	} {
		got, err := decode(raw)
		switch {
		case fmt.Sprint(err) != fmt.Sprint(wantErr):
			t.Errorf("%d: %s of %x: error %v, want %v", i, typ, raw, err, wantErr)
		case err == nil && !reflect.DeepEqual(got, want):
			t.Errorf("%d: %s of %x: got\n%+v\nwant\n%+v", i, typ, raw, got, want)
		}
	}
}

func TestOddBytes(t *testing.T) {
	for name, raw := range unusual {
		t.Run(name, func(t *testing.T) { same(t, reflect.TypeFor[*corev1.Pod](), raw) })
	}
}

func FuzzDecode(f *testing.F) {
	all := allTypes()
	of := func(t reflect.Type) uint16 { return uint16(slices.Index(all, t)) }
	for _, raw := range unusual {
		f.Add(of(reflect.TypeFor[*corev1.Pod]()), raw)
	}
	pods := podsim.New(2, 1)
	f.Add(of(reflect.TypeFor[*corev1.Pod]()), pod(*pods.Pod(0)))
	f.Add(of(reflect.TypeFor[*metav1.APIResourceList]()), message1(2, message1(4, message1(1, []byte("get")))))
	f.Fuzz(func(t *testing.T, i uint16, raw []byte) {
		same(t, all[int(i)%len(all)], raw)
	})
}

type custom struct{ Name string }

func (c *custom) Unmarshal(raw []byte) error { c.Name = string(raw); return nil }
func (c *custom) Marshal() ([]byte, error)   { return []byte(c.Name), nil }

func TestForeignTypes(t *testing.T) {
	got, err := decoderFor(reflect.TypeFor[*custom]()).private([]byte("x"))
	if err != nil || *got.(*custom) != (custom{"x"}) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, typ := range []reflect.Type{nil, reflect.TypeFor[int](), reflect.TypeFor[*int](), reflect.TypeFor[*unstructured.Unstructured]()} {
		if decoderFor(typ) != nil {
			t.Errorf("%v has a decoder", typ)
		}
	}
}

// TestNothingIsShared checks that changing a private value, of any type, changes neither another
// value nor cached data.
func TestNothingIsShared(t *testing.T) {
	fill := fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs), rand.NewSource(1), scheme.Codecs).NilChance(0.3).NumElements(0, 3)
	for _, typ := range allTypes() {
		object := reflect.New(typ.Elem()).Interface().(protoMessage)
		fill.Fill(object)
		raw, err := object.Marshal()
		check.NoError(t, err)
		nothingIsShared(t, typ, raw)
	}
	nothingIsShared(t, reflect.TypeFor[*corev1.Pod](), pod(*podsim.New(1, 1).Pod(0)))
}

func nothingIsShared(t *testing.T, typ reflect.Type, raw []byte) {
	t.Helper()
	d := decoderFor(typ)
	want := reflect.New(typ.Elem()).Interface().(protoMessage)
	check.NoError(t, want.Unmarshal(raw))
	for range 4 { // until the shareable parts are shared
		_, errShared := d.shared(raw)
		a, err := d.private(raw)
		b, other := d.private(raw)
		if err != nil || other != nil || errShared != nil {
			t.Fatal(err, other, errShared)
		}
		testenv.ScribbleOver(a)
		after, err := d.private(raw)
		check.NoError(t, err)
		shared, err := d.shared(raw)
		check.NoError(t, err)
		for which, got := range map[string]any{"before": b, "after": after, "shared": shared} {
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: a value that was made %s another one has changed with it", typ, which)
			}
		}
	}
}

func TestConcurrent(t *testing.T) {
	pods := podsim.New(40, 1)
	d := decoderFor(reflect.TypeFor[*corev1.Pod]())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range pods.Len() {
				want := pods.Pod(i)
				if got, err := d.shared(pod(*want)); err != nil || !equality.Semantic.DeepEqual(got, want) {
					t.Errorf("pod %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkDecode(b *testing.B) {
	sim := podsim.New(100, 1)
	raws := make([][]byte, sim.Len())
	for i := range raws {
		raws[i] = pod(*sim.Pod(i))
	}
	c := New(reflect.TypeFor[*corev1.Pod]())
	for name, decode := range map[string]func([]byte) (any, error){"weir": c.Decode, "weir, shared": c.DecodeShared} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := decode(raws[i%len(raws)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("versions", func(b *testing.B) {
		later := make([][]byte, len(raws))
		for i := range later {
			p := sim.Pod(i)
			podsim.Touch(p, randv2.New(randv2.NewPCG(1, 2)))
			p.ResourceVersion += "1"
			later[i] = pod(*p)
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, _, err := c.DecodeUpdate(nil, raws[i%len(raws)], later[i%len(raws)]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("generated", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			check.NoError(b, new(corev1.Pod).Unmarshal(raws[i%len(raws)]))
		}
	})
}
