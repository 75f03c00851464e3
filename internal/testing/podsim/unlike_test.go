package podsim

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/weirproject/weir/internal/testing/check"
)

var makers = map[string]func(int, uint64) *Pods{"alike": New, "unlike": NewUnlike, "random": NewRandom}

func TestEverySet(t *testing.T) {
	for name, of := range makers {
		t.Run(name, func(t *testing.T) {
			t.Run("same pods for same seed", func(t *testing.T) { sameForSameSeed(t, of) })
			t.Run("unique names and uids", func(t *testing.T) { uniqueNames(t, of(503, 3)) })
			t.Run("listed names", func(t *testing.T) { listedNames(t, of(503, 3)) })
			t.Run("valid pods", func(t *testing.T) { validPods(t, of(1_000, 2)) })
			t.Run("touched", func(t *testing.T) { touched(t, of(40, 5)) })
		})
	}
}

func sameForSameSeed(t *testing.T, of func(int, uint64) *Pods) {
	a, b, other := of(full, 7), of(full, 7), of(full, 8)
	for _, i := range []int{0, 1, 4, 19, 20, 12_345, full - 1} {
		pod := b.Pod(i)
		if !equality.Semantic.DeepEqual(a.Pod(i), pod) {
			t.Errorf("pod %d differs between two sets of the same seed", i)
		}
		if pod.UID == other.Pod(i).UID {
			t.Errorf("pod %d has the same uid under another seed", i)
		}
		for k := range pod.Annotations {
			pod.Annotations[k] = "mine"
		}
		for k := range pod.Labels {
			pod.Labels[k] = "mine"
		}
		pod.Spec.Containers[0].Env[0].Name = "MINE"
		if len(pod.ManagedFields) > 0 {
			pod.ManagedFields[0].FieldsV1.GetRawBytes()[0] = 'x'
		}
		if !equality.Semantic.DeepEqual(a.Pod(i), b.Pod(i)) {
			t.Errorf("writing to pod %d changes the set it came from", i)
		}
	}
}

func uniqueNames(t *testing.T, p *Pods) {
	uids, keys := map[types.UID]bool{}, map[string]bool{}
	for i := range p.Len() {
		pod := p.Pod(i)
		uids[pod.UID], keys[pod.Namespace+"/"+pod.Name] = true, true
	}
	if len(uids) != p.Len() || len(keys) != p.Len() {
		t.Errorf("%d pods have %d uids and %d keys", p.Len(), len(uids), len(keys))
	}
}

func listedNames(t *testing.T, p *Pods) {
	namespaces, apps, nodes := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range p.Len() {
		pod := p.Pod(i)
		namespaces[pod.Namespace], nodes[pod.Spec.NodeName] = true, true
		if app, ok := pod.Labels["app"]; ok {
			apps[app] = true
		}
	}
	for _, listed := range []struct {
		names []string
		seen  map[string]bool
	}{{p.Namespaces(), namespaces}, {p.Apps(), apps}, {p.Nodes(), nodes}} {
		if len(listed.names) != len(listed.seen) {
			t.Errorf("%d names listed, %d seen", len(listed.names), len(listed.seen))
		}
		for _, name := range listed.names {
			if !listed.seen[name] {
				t.Errorf("%s is listed but has no pods", name)
			}
		}
	}
}

func validPods(t *testing.T, p *Pods) {
	for i := 0; i < p.Len(); i += 7 {
		validPod(t, p.Pod(i))
	}
}

func validPod(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	for _, name := range []string{pod.Name, pod.Spec.NodeName, pod.Namespace} {
		if errs := validation.IsDNS1123Subdomain(name); len(errs) != 0 {
			t.Errorf("%q: %v", name, errs)
		}
	}
	for k, v := range pod.Labels {
		if errs := append(validation.IsQualifiedName(k), validation.IsValidLabelValue(v)...); len(errs) != 0 {
			t.Errorf("label %s=%s: %v", k, v, errs)
		}
	}
	for k := range pod.Annotations {
		if errs := validation.IsQualifiedName(k); len(errs) != 0 {
			t.Errorf("annotation %s: %v", k, errs)
		}
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if errs := validation.IsDNS1123Label(c.Name); len(errs) != 0 {
			t.Errorf("container %s: %v", c.Name, errs)
		}
		for _, m := range c.VolumeMounts {
			if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
				t.Errorf("%s mounts %s, which is no volume", c.Name, m.Name)
			}
		}
	}
	if len(pod.Spec.Containers) != len(pod.Status.ContainerStatuses) {
		t.Errorf("%d containers, %d statuses", len(pod.Spec.Containers), len(pod.Status.ContainerStatuses))
	}
	for _, m := range pod.ManagedFields {
		if !json.Valid(m.FieldsV1.GetRawBytes()) {
			t.Errorf("the fields of %s are not JSON", m.Manager)
		}
	}
	comesBack(t, pod)
}

// comesBack checks that encoding and decoding a pod in each encoding returns an equal pod.
func comesBack(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	raw, err := pod.Marshal()
	check.NoError(t, err)
	var back corev1.Pod
	check.NoError(t, back.Unmarshal(raw))
	if !equality.Semantic.DeepEqual(pod, &back) {
		t.Errorf("%s does not come back from protobuf as it was", pod.Name)
	}
	if raw, err = json.Marshal(pod); err != nil {
		t.Fatal(err)
	}
	var again corev1.Pod
	check.NoError(t, json.Unmarshal(raw, &again))
	if !equality.Semantic.DeepEqual(pod, &again) {
		t.Errorf("%s does not come back from JSON as it was", pod.Name)
	}
}

func touched(t *testing.T, p *Pods) {
	for i := range p.Len() {
		pod := p.Pod(i)
		rnd := rand.New(rand.NewPCG(1, uint64(i)))
		for range 5 {
			last := pod.DeepCopy()
			Touch(pod, rnd)
			if equality.Semantic.DeepEqual(last.Status, pod.Status) || !lastUpdate(last).Before(lastUpdate(pod)) {
				t.Fatalf("the status of pod %d did not change", i)
			}
		}
	}
}

// shape returns the paths of the fields that are set in a pod's spec, including list positions,
// without values.
func shape(pod *corev1.Pod) string {
	var b strings.Builder
	var walk func(reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			walk(v.Elem())
		case reflect.Struct:
			if v.Type() == reflect.TypeFor[resource.Quantity]() {
				return
			}
			for i := range v.NumField() {
				if f := v.Field(i); !f.IsZero() {
					b.WriteString("." + v.Type().Field(i).Name + "(")
					walk(f)
					b.WriteString(")")
				}
			}
		case reflect.Map:
			keys := v.MapKeys()
			slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
			for _, k := range keys {
				b.WriteString("." + k.String() + "(")
				walk(v.MapIndex(k))
				b.WriteString(")")
			}
		case reflect.Slice:
			for i := range v.Len() {
				b.WriteString("[")
				walk(v.Index(i))
				b.WriteString("]")
			}
		}
	}
	walk(reflect.ValueOf(pod.Spec))
	return b.String()
}

func TestShapes(t *testing.T) {
	for name, want := range map[string]struct{ workload, alone int }{
		"alike":  {1, 1},
		"unlike": {100, 400}, // there are 100 workloads, and 400 pods without a workload
		"random": {1_600, 400},
	} {
		p := makers[name](2_000, 4)
		workload, alone := map[string]bool{}, map[string]bool{}
		for i := range p.Len() {
			if i%lonerEvery == lonerEvery-1 {
				alone[shape(p.Pod(i))] = true
			} else {
				workload[shape(p.Pod(i))] = true
			}
		}
		if len(workload) != want.workload || len(alone) != want.alone {
			t.Errorf("%s: %d and %d shapes, want %d and %d", name, len(workload), len(alone), want.workload, want.alone)
		}
	}
}

func TestReplicasShareTheirTemplate(t *testing.T) {
	p := NewUnlike(200, 1)
	first, second, loner, other := p.Pod(20), p.Pod(21), p.Pod(24), p.Pod(40)
	for _, pod := range []*corev1.Pod{first, second} { // remove what differs between replicas
		pod.Spec.NodeName, pod.Spec.Volumes = "", pod.Spec.Volumes[:len(pod.Spec.Volumes)-1]
		for i := range pod.Spec.Containers {
			c := &pod.Spec.Containers[i]
			c.VolumeMounts = c.VolumeMounts[:len(c.VolumeMounts)-1]
		}
	}
	if !equality.Semantic.DeepEqual(first.Spec, second.Spec) || !reflect.DeepEqual(first.OwnerReferences, second.OwnerReferences) {
		t.Error("replicas of one workload differ in what they share")
	}
	if len(loner.OwnerReferences) != 0 || loner.Labels["app"] != "" {
		t.Error("the fifth pod has an owner")
	}
	if other.OwnerReferences[0].UID == first.OwnerReferences[0].UID {
		t.Error("pods of two workloads have one owner")
	}
}

func TestSizesOfUnlikeAndRandom(t *testing.T) {
	for name, of := range map[string]func(int, uint64) *Pods{"unlike": NewUnlike, "random": NewRandom} {
		p := of(full, 1)
		var size, n int
		for i := 0; i < full; i += 97 {
			size += p.Pod(i).Size()
			n++
		}
		if mean := size / n; mean < 8_000 || mean > 8_600 {
			t.Errorf("%s: a pod has %d bytes as protobuf, want 8,000 to 8,600", name, mean)
		}
	}
}

// TestHowFarPodsCompress compresses 700 pods of each set together, and checks the compressed size
// as a share of the original size. A small share shows that the pods have much text in common.
func TestHowFarPodsCompress(t *testing.T) {
	for name, want := range map[string]struct{ least, most float64 }{
		"alike": {0, 0.08}, "unlike": {0.08, 0.25}, "random": {0.69, 1},
	} {
		p := makers[name](700, 6)
		var packed bytes.Buffer
		z, err := flate.NewWriter(&packed, flate.DefaultCompression)
		check.NoError(t, err)
		size := 0
		for i := range p.Len() {
			raw, err := p.Pod(i).Marshal()
			check.NoError(t, err)
			size += len(raw)
			z.Write(raw)
		}
		z.Close()
		if share := float64(packed.Len()) / float64(size); share < want.least || share > want.most {
			t.Errorf("%s: %.3f of the bytes are left, want %.2f to %.2f", name, share, want.least, want.most)
		}
	}
}

func BenchmarkUnlikePod(b *testing.B) {
	p := NewUnlike(full, 1)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p.Pod(i % full)
	}
}
