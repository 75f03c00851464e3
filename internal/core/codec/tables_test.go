//go:build !weir_safe

package codec

import (
	"reflect"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// TestTablesOfEveryType checks that the tables, and not Unmarshal, decode random values of every
// built-in type. TestEveryType compares the results.
func TestTablesOfEveryType(t *testing.T) {
	eachRandom(t, 3, func(typ reflect.Type, _ protoMessage, raw []byte) {
		if _, ok := decoderFor(typ).decodeByTables(raw, false); !ok {
			t.Errorf("%s: left to Unmarshal: %x", typ, raw)
		}
	})
}

// TestTemplates checks that the third and later pods with the same fields are copied from a
// template. Pods with one field more or less must also be decoded correctly.
func TestTemplates(t *testing.T) {
	d := &decoder{goType: reflect.TypeFor[corev1.Pod]()}
	d.compile()
	sim := podsim.New(50, 1)
	s := new(scratch)
	followed := 0
	for i := range sim.Len() {
		for change, has := range map[string]func(*corev1.Pod){
			"as it is": func(*corev1.Pod) {}, "with a field more": func(p *corev1.Pod) { p.Spec.Subdomain = "s" },
			"with a label more":   func(p *corev1.Pod) { p.Labels["more"] = "x" },
			"with a field less":   func(p *corev1.Pod) { p.Spec.ServiceAccountName = "" },
			"with another probe":  func(p *corev1.Pod) { p.Spec.Containers[0].LivenessProbe = nil },
			"with another string": func(p *corev1.Pod) { p.Status.Message = p.Name },
		} {
			want := sim.Pod(i)
			has(want)
			raw := pod(*want)
			if !d.tokenize(s, raw) {
				t.Fatal("left to Unmarshal")
			}
			if found, _ := d.templates.find(s.print); found != nil {
				followed++
			}
			s.reset()
			p, ok := d.decode(s, raw)
			if got := (*corev1.Pod)(p); !ok || !equality.Semantic.DeepEqual(got, want) {
				t.Fatalf("pod %d %s: got %+v, want %+v", i, change, got, want)
			}
			s.reset()
		}
	}
	if followed < 100 {
		t.Errorf("only %d of %d pods were copied from a template", followed, 6*sim.Len())
	}
}

// TestShared checks that objects from DecodeShared share their equal parts, except the metadata,
// and that the parts that they do not share are one allocation. An object from Decode must share no
// part.
func TestShared(t *testing.T) {
	d := decoderFor(reflect.TypeFor[*corev1.Pod]())
	d.once.Do(d.compile)
	sim := podsim.New(2, 1) // of one workload
	var pods []*corev1.Pod
	s := new(scratch)
	for i := range 8 {
		s.sharing = i < 7
		want := sim.Pod(i % 2)
		p, ok := d.decode(s, pod(*want))
		got := (*corev1.Pod)(p)
		if !ok || !equality.Semantic.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		pods = append(pods, got)
		s.reset()
	}
	a, b, own := pods[5], pods[6], pods[7]
	// If two pieces have the same place in the cache, only one of the two is shared.
	if n := inCommon(a, b); n < 7 {
		t.Errorf("%d pieces are shared", n)
	}
	if n := inCommon(a, own); n > 0 {
		t.Errorf("%d pieces of a private value are shared", n)
	}
	if &a.OwnerReferences[0] == &b.OwnerReferences[0] || reflect.ValueOf(a.Labels).Pointer() == reflect.ValueOf(b.Labels).Pointer() {
		t.Error("metadata is shared")
	}
	if list := a.Spec.Tolerations; cap(list) > len(list) {
		t.Error("who appends to a shared slice writes into it")
	}
	raw := pod(*sim.Pod(0))
	allocated := testing.AllocsPerRun(100, func() {
		s.sharing = true
		d.decode(s, raw)
		s.reset()
	})
	if allocated > 15 { // with an allocation for each piece, 27
		t.Errorf("%v allocations for an object whose shape is known", allocated)
	}
}

// inCommon returns how many of 14 pieces two pods share. All pods of a workload have these pieces.
func inCommon(a, b *corev1.Pod) (n int) {
	pieces := func(p *corev1.Pod) []any {
		all := []any{&p.Spec.Tolerations[0], p.Spec.Volumes[1].Projected}
		for _, c := range p.Spec.Containers {
			requests, limits := reflect.ValueOf(c.Resources.Requests).Pointer(), reflect.ValueOf(c.Resources.Limits).Pointer()
			all = append(all, c.LivenessProbe, c.ReadinessProbe, &c.Env[0], &c.Ports[0], requests, limits)
		}
		return all
	}
	of := pieces(b)
	for i, piece := range pieces(a) {
		if piece == of[i] {
			n++
		}
	}
	return n
}

// TestUnknownLayouts checks that this release of Go has the known layouts, and that Unmarshal
// decodes objects on a release that has different layouts.
func TestUnknownLayouts(t *testing.T) {
	if !slicesKnown() || !stringsKnown() || !mapsKnown() || !structsKnown() {
		t.Fatalf("slices %v, strings %v, maps %v, structs %v", slicesKnown(), stringsKnown(), mapsKnown(), structsKnown())
	}
	layoutsKnown = false
	defer func() { layoutsKnown = true }()
	d := newDecoder(reflect.TypeFor[corev1.Pod]())
	want := podsim.New(1, 1).Pod(0)
	value, err := d.private(pod(*want))
	old, fresh, other := d.versions(pod(*want), pod(*want))
	if err != nil || other != nil || d.message != nil {
		t.Fatal(err, other, d.message)
	}
	for _, got := range []any{value, old, fresh} {
		if !equality.Semantic.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

// TestTemplatesAreBounded checks that a decoder makes at most maxTemplates templates, and no
// template of an object that is too large. The decoder must still decode all objects.
func TestTemplatesAreBounded(t *testing.T) {
	d := newDecoder(reflect.TypeFor[corev1.Pod]())
	count := func() (n int) {
		d.templates.kept.Range(func(any, any) bool { n++; return true })
		return n
	}
	for _, containers := range []int{maxCount + 1, maxPieces + 1} {
		same(t, d, pod(corev1.Pod{Spec: corev1.PodSpec{Containers: make([]corev1.Container, containers)}}))
	}
	check.Equal(t, count(), 0, "templates of large objects")
	for labels := range 2 * maxTemplates {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{}}}
		for i := range labels {
			p.Labels[strconv.Itoa(i)] = "x"
		}
		same(t, d, pod(p))
	}
	check.Equal(t, count(), maxTemplates, "templates")
}
