package codec

import (
	"fmt"
	"math/rand"
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
func (d *decoder) private(raw []byte) (any, error) { return d.unmarshal(raw, false) }
func (d *decoder) shared(raw []byte) (any, error)  { return d.unmarshal(raw, true) }

func (d *decoder) versions(was, is []byte) (old, fresh any, err error) {
	c := New(reflect.PointerTo(d.goType))
	c.protobuf = d
	return c.versions(was, is)
}

// versions decodes two versions of an object, as a store does.
func (c *Codec) versions(was, is []byte) (old, fresh any, err error) {
	if old, err = c.Decode(was, nil); err == nil {
		fresh, err = c.Decode(is, &Version{Raw: was, Value: old, Unread: true})
	}
	return old, fresh, err
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

// eachRandom calls f with n random values of each built-in type, and their bytes.
func eachRandom(t *testing.T, n int, f func(typ reflect.Type, object protoMessage, raw []byte)) {
	t.Helper()
	fill := fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs), rand.NewSource(1), scheme.Codecs).NilChance(0.3).NumElements(0, 3)
	for _, typ := range allTypes() {
		for range n {
			object := reflect.New(typ.Elem()).Interface().(protoMessage)
			fill.Fill(object)
			raw, err := object.Marshal()
			check.NoError(t, err)
			f(typ, object, raw)
		}
	}
}

// TestEveryType compares decoded random values of every built-in type with the results of the
// type's Unmarshal.
func TestEveryType(t *testing.T) {
	eachRandom(t, 3, func(typ reflect.Type, _ protoMessage, raw []byte) { same(t, decoderFor(typ), raw) })
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

// message1 returns an encoded protobuf field with the given bytes. entry returns an encoded entry
// of a map.
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
// raw several times, because the decoder shares a value, or copies a template, only after the same
// bytes have occurred before.
func same(t *testing.T, d *decoder, raw []byte) {
	t.Helper()
	want := reflect.New(d.goType).Interface().(protoMessage)
	wantErr := want.Unmarshal(raw)
	for i, decode := range []func([]byte) (any, error){
		d.private, d.private, d.private, d.private, d.shared, d.shared, d.shared,
	} {
		got, err := decode(raw)
		switch {
		case fmt.Sprint(err) != fmt.Sprint(wantErr):
			t.Errorf("%d: %s of %x: error %v, want %v", i, d.goType, raw, err, wantErr)
		case err == nil && !reflect.DeepEqual(got, want):
			t.Errorf("%d: %s of %x: got\n%+v\nwant\n%+v", i, d.goType, raw, got, want)
		}
	}
}

func TestOddBytes(t *testing.T) {
	for name, raw := range unusual {
		t.Run(name, func(t *testing.T) { same(t, decoderFor(reflect.TypeFor[*corev1.Pod]()), raw) })
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
		same(t, decoderFor(all[int(i)%len(all)]), raw)
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

// TestNothingIsShared checks, for each type, that a change of a private value changes neither
// another value nor cached data.
func TestNothingIsShared(t *testing.T) {
	eachRandom(t, 1, func(typ reflect.Type, _ protoMessage, raw []byte) { nothingIsShared(t, typ, raw) })
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
	d := newDecoder(reflect.TypeFor[corev1.Pod]())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range pods.Len() {
				want := pods.Pod(i)
				for _, decode := range []func(raw []byte) (any, error){d.shared, d.private} {
					if got, err := decode(pod(*want)); err != nil || !equality.Semantic.DeepEqual(got, want) {
						t.Errorf("pod %d: %v", i, err)
					}
				}
			}
		})
	}
	wg.Wait()
}
