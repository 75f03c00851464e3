package populations

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

const mixedPods = 400

func TestMixedHasTheKindsOfACluster(t *testing.T) {
	p := made(t, podsim.Mixed, mixedPods, 5)
	seen := map[schema.GroupVersionResource]bool{}
	for k := range p.Kinds {
		kind := &p.Kinds[k]
		if seen[kind.GroupVersionResource] || kind.Len == 0 {
			t.Errorf("%v is there twice, or has no objects", kind.GroupVersionResource)
		}
		seen[kind.GroupVersionResource] = true
		o := kind.Object(0)
		if u, ok := o.(*unstructured.Unstructured); ok {
			if got, want := u.GroupVersionKind(), kind.GroupVersion().WithKind(kind.Kind); got != want {
				t.Errorf("an object of %v is a %v", want, got)
			}
			continue
		}
		known, _, err := scheme.Scheme.ObjectKinds(o)
		check.NoError(t, err)
		if want := kind.GroupVersion().WithKind(kind.Kind); known[0] != want {
			t.Errorf("an object of %v is a %v", want, known[0])
		}
	}
	check.Equal(t, len(seen), 30, "kinds")
	if kind := p.Kinds[0]; kind.Kind != "Pod" || kind.Len != mixedPods {
		t.Errorf("%d objects of %s come first, want %d pods", kind.Len, kind.Kind, mixedPods)
	}
}

func TestEveryCountOfPods(t *testing.T) {
	for _, n := range []int{0, 1, 4, 5, 21, 251} {
		p := made(t, podsim.Mixed, n, 1)
		for k := range p.Kinds {
			for i := range p.Kinds[k].Len {
				p.Kinds[k].Object(i)
			}
		}
	}
}

// TestWorkloadsAreConsistent checks, for clusters of several sizes, that a Deployment selects the
// pods of its template, and that a Job does not end before its start.
func TestWorkloadsAreConsistent(t *testing.T) {
	for _, n := range []int{30, 33, mixedPods} {
		p := made(t, podsim.Mixed, n, 1)
		for k := range p.Kinds {
			for i := range min(p.Kinds[k].Len, 40) {
				switch o := p.Kinds[k].Object(i).(type) {
				case *appsv1.Deployment:
					if app := o.Spec.Selector.MatchLabels["app"]; app != o.Spec.Template.Labels["app"] {
						t.Errorf("of %d pods: the deployment of %s has pods of %v", n, app, o.Spec.Template.Labels)
					}
				case *batchv1.Job:
					if o.Status.CompletionTime.Before(o.Status.StartTime) {
						t.Errorf("of %d pods: job %s ends before it begins", n, o.Name)
					}
				}
			}
		}
	}
}

func TestMixedObjectsAreValid(t *testing.T) {
	p := made(t, podsim.Mixed, mixedPods, 5)
	for k := range p.Kinds {
		kind := &p.Kinds[k]
		for i := range min(kind.Len, 40) {
			o := kind.Object(i)
			if errs := validation.IsDNS1123Subdomain(o.GetName()); len(errs) != 0 {
				t.Errorf("%s %q: %v", kind.Kind, o.GetName(), errs)
			}
			for key, v := range o.GetLabels() {
				if errs := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(v)...); len(errs) != 0 {
					t.Errorf("%s: label %s=%s: %v", kind.Kind, key, v, errs)
				}
			}
			for key := range o.GetAnnotations() {
				if errs := validation.IsQualifiedName(key); len(errs) != 0 {
					t.Errorf("%s: annotation %s: %v", kind.Kind, key, errs)
				}
			}
			for _, m := range o.GetManagedFields() {
				if !json.Valid(m.FieldsV1.GetRawBytes()) {
					t.Errorf("%s: the fields of %s are not JSON", kind.Kind, m.Manager)
				}
			}
			comesBack(t, o)
		}
	}
}

// comesBack checks that encoding and decoding an object returns an equal object.
func comesBack(t *testing.T, o Object) {
	t.Helper()
	if u, ok := o.(*unstructured.Unstructured); ok {
		raw, err := u.MarshalJSON()
		check.NoError(t, err)
		var back unstructured.Unstructured
		check.NoError(t, back.UnmarshalJSON(raw))
		if !reflect.DeepEqual(u, &back) {
			t.Errorf("%s does not come back from JSON as it was", u.GetName())
		}
		return
	}
	type message interface {
		Marshal() ([]byte, error)
		Unmarshal([]byte) error
	}
	raw, err := o.(message).Marshal()
	check.NoError(t, err)
	back := reflect.New(reflect.TypeOf(o).Elem()).Interface().(message)
	check.NoError(t, back.Unmarshal(raw))
	if !equality.Semantic.DeepEqual(o, back) {
		t.Errorf("%T %s does not come back from protobuf as it was", o, o.GetName())
	}
}

// TestSecretsDoNotCompress checks that the data of the Secrets of a population hardly compresses:
// at least 99% of its size remains.
func TestSecretsDoNotCompress(t *testing.T) {
	p := made(t, podsim.Mixed, mixedPods, 5)
	var packed bytes.Buffer
	z, err := flate.NewWriter(&packed, flate.BestCompression)
	check.NoError(t, err)
	size, secrets := 0, 0
	for k := range p.Kinds {
		kind := &p.Kinds[k]
		for i := 0; kind.Kind == "Secret" && i < kind.Len; i++ {
			secrets++
			for _, v := range kind.Object(i).(*corev1.Secret).Data {
				size += len(v)
				z.Write(v)
			}
		}
	}
	z.Close()
	if secrets == 0 || float64(packed.Len()) < 0.99*float64(size) {
		t.Errorf("%d bytes of %d secrets take %d", size, secrets, packed.Len())
	}
}

func TestDefinitionsAreBig(t *testing.T) {
	p := made(t, podsim.Mixed, mixedPods, 5)
	kind := &p.Kinds[len(p.Kinds)-1]
	total := 0
	for i := range kind.Len {
		raw, err := json.Marshal(kind.Object(i))
		check.NoError(t, err)
		total += len(raw)
		if len(raw) < 2_000 || len(raw) > 1<<20 {
			t.Errorf("definition %d has %d bytes", i, len(raw))
		}
	}
	if mean := total / kind.Len; mean < 20_000 || mean > 120_000 {
		t.Errorf("a definition has %d bytes, want 20,000 to 120,000", mean)
	}
}
