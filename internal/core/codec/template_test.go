//go:build !weir_safe

package codec

import (
	"math/rand"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// copier decodes like a decoder, and counts the objects that were copied from a template.
type copier struct {
	*decoder
	scratch
	copied int
}

func newCopier(t reflect.Type) *copier {
	c := &copier{decoder: &decoder{goType: t}}
	c.decoder.once.Do(c.decoder.compile)
	return c
}

// decode decodes raw. It returns nil if Unmarshal must decode the object.
func (c *copier) decode(raw []byte) any {
	defer c.scratch.reset()
	if p, ok := c.decoder.decodeLikeOthers(&c.scratch, raw); ok {
		c.copied++
		return reflect.NewAt(c.goType, p).Interface()
	}
	if p, ok := c.decoder.decode(&c.scratch, raw); ok {
		return reflect.NewAt(c.goType, p).Interface()
	}
	return nil
}

// TestCopiesDuringGC copies templates while the garbage collector runs, drops the templates, and
// compares the copies after more collections. The bytes of a copy are written without write
// barriers, so the collector must find their pointers in the template.
func TestCopiesDuringGC(t *testing.T) {
	done, collected := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(collected)
		for {
			select {
			case <-done:
				return
			default:
				runtime.GC()
			}
		}
	}()
	pods := podsim.New(200, 1)
	values := make([]any, 5*200)
	for i := 0; i < len(values); i += 200 {
		c := newCopier(reflect.TypeFor[corev1.Pod]())
		for k := range 200 {
			values[i+k] = c.decode(pod(*pods.Pod(k)))
		}
		if c.copied < 150 {
			t.Errorf("only %d of 200 pods were copied", c.copied)
		}
	}
	close(done)
	<-collected
	runtime.GC()
	for i, value := range values {
		var want corev1.Pod
		check.NoError(t, want.Unmarshal(pod(*pods.Pod(i % 200))))
		if !reflect.DeepEqual(value, &want) {
			t.Fatalf("copy %d differs from the decoded object", i)
		}
	}
}

// TestCopies changes the bytes of an object at random. Some changes make the bytes malformed. The
// copy of a template must equal Unmarshal's result, and the template must not change.
func TestCopies(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	copied, all := 0, allTypes()
	eachRandom(t, 1, func(typ reflect.Type, _ protoMessage, raw []byte) { copied += copies(t, typ.Elem(), raw, random, 8) })
	if copied < 6*len(all) {
		t.Errorf("only %d objects of %d types were copied", copied, len(all))
	}
	if n := copies(t, reflect.TypeFor[corev1.Pod](), pod(*podsim.New(1, 1).Pod(0)), random, 600); n < 600 {
		t.Errorf("only %d pods were copied", n)
	}
}

func copies(t *testing.T, typ reflect.Type, raw []byte, random *rand.Rand, n int) (copied int) {
	t.Helper()
	c := newCopier(typ)
	for range 3 {
		c.decode(raw)
	}
	for range n {
		changed := scrambled(raw, random)
		for _, bytes := range [][]byte{changed, raw} {
			want := reflect.New(typ).Interface().(protoMessage)
			err := want.Unmarshal(bytes)
			got := c.decode(bytes)
			switch {
			case got == nil:
			case err != nil:
				t.Fatalf("%s: %x was decoded; Unmarshal: %v", typ, bytes, err)
			case !reflect.DeepEqual(got, want):
				t.Fatalf("%s: got\n%+v\nwant\n%+v", typ, got, want)
			default:
				testenv.ScribbleOver(got)
			}
		}
	}
	return c.copied
}

// TestNoCopiesOfUnknownFields checks that an object with unknown fields does not become a template,
// because the bytes between known fields are not compared.
func TestNoCopiesOfUnknownFields(t *testing.T) {
	raw := pod(*podsim.New(1, 1).Pod(0))
	_, begin := cut(raw, 1, protowire.BytesType) // of the spec
	raw = slices.Insert(raw, begin, 0xfa, 0x3f, 1, 'x')
	if n := copies(t, reflect.TypeFor[corev1.Pod](), raw, rand.New(rand.NewSource(1)), 100); n > 0 {
		t.Errorf("%d pods were copied", n)
	}
}

// TestBigQuantitiesAreNotCopied checks that a copy does not share the big.Int of a large quantity
// with the template.
func TestBigQuantitiesAreNotCopied(t *testing.T) {
	want, big := podsim.New(1, 1).Pod(0), resource.MustParse("123456789012345678901234567890")
	want.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = big
	want.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &big}}
	raw := pod(*want)
	c := newCopier(reflect.TypeFor[corev1.Pod]())
	for range 6 {
		got := c.decode(raw).(*corev1.Pod)
		for _, q := range []*resource.Quantity{got.Spec.Containers[0].Resources.Requests.Cpu(), got.Spec.Volumes[0].EmptyDir.SizeLimit} {
			if q.Cmp(big) != 0 {
				t.Fatalf("%v became %v", &big, q)
			}
			q.AsDec().SetScale(7)
		}
	}
	if c.copied == 0 {
		t.Error("none was copied")
	}
}

// TestSecretsAreNotKept checks that neither a Secret nor metadata that may contain a Secret's data
// becomes a template, because templates stay in memory permanently.
func TestSecretsAreNotKept(t *testing.T) {
	secret := &corev1.Secret{Type: corev1.SecretTypeOpaque, StringData: map[string]string{"key": "value"}}
	secret.Name = "s"
	raw, err := secret.Marshal()
	check.NoError(t, err)
	if n := copies(t, reflect.TypeFor[corev1.Secret](), raw, rand.New(rand.NewSource(1)), 10); n > 0 {
		t.Errorf("%d secrets are copies of another", n)
	}
	metadata := &metav1.PartialObjectMetadata{}
	for note, kept := range map[string]bool{"kubectl.kubernetes.io/last-applied-configuration": false, "kubectl.kubernetes.io/restartedAt": true} {
		metadata.Annotations = map[string]string{note: "the secret's data"}
		if raw, err = metadata.Marshal(); err != nil {
			t.Fatal(err)
		}
		n := copies(t, reflect.TypeFor[metav1.PartialObjectMetadata](), raw, rand.New(rand.NewSource(1)), 10)
		if n > 0 != kept {
			t.Errorf("%s: %d metadata are copies of another", note, n)
		}
	}
}
