package codec

import (
	"reflect"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weirproject/weir/internal/testing/check"
)

// exactly compares values like reflect.DeepEqual, except for the texts that quantities cache.
var exactly = conversion.EqualitiesOrDie(
	func(a, b metav1.Time) bool { return reflect.DeepEqual(a, b) },
	func(a, b metav1.MicroTime) bool { return reflect.DeepEqual(a, b) },
	func(a, b resource.Quantity) bool {
		_, _ = a.String(), b.String()
		return reflect.DeepEqual(a, b)
	},
)

// survives reports whether a value is the same after encoding and decoding, except for its TypeMeta
// and the texts that quantities cache.
func survives(t *testing.T, object protoMessage) bool {
	t.Helper()
	d := decoderFor(reflect.TypeOf(object))
	raw, err := object.Marshal()
	check.NoError(t, err)
	decoded, err := d.private(raw)
	check.NoError(t, err)
	if stated := d.typeMetaOf(object); stated != nil {
		if got := d.typeMetaOf(decoded); *got != (metav1.TypeMeta{}) {
			t.Errorf("%T was decoded with %v", object, *got)
		}
		*d.typeMetaOf(decoded) = *stated
	}
	return exactly.DeepEqualWithNilDifferentFromEmpty(decoded, object)
}

// TestKeepsEveryType checks random values of every built-in type. A value that keeps accepts must
// be equal after encoding and decoding. keeps must accept at least 95 % of the values that were
// decoded from protobuf.
func TestKeepsEveryType(t *testing.T) {
	sent, kept := 0, 0
	eachRandom(t, 4, func(typ reflect.Type, object protoMessage, raw []byte) {
		if decoderFor(typ).keeps(object) && !survives(t, object) {
			t.Errorf("%s is not kept: %+v", typ, object)
		}
		received, err := decoderFor(typ).private(raw)
		check.NoError(t, err)
		if sent++; decoderFor(typ).keeps(received) {
			kept++
		}
	})
	if kept < sent*95/100 {
		t.Errorf("of %d values that were received only %d are known to be kept", sent, kept)
	}
}

func TestKeeps(t *testing.T) {
	created := func(at time.Time) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(at)}}
	}
	at := func(nanos int) metav1.Time { return metav1.NewTime(time.Unix(1_700_000_000, int64(nanos))) }
	micro := func(nanos int) *metav1.MicroTime {
		return &metav1.MicroTime{Time: time.Unix(1_700_000_000, int64(nanos))}
	}
	asks := func(quantity string) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(quantity)}}}
	}
	for name, test := range map[string]struct {
		object protoMessage
		keeps  bool
	}{
		"nothing":           {&corev1.Pod{}, true},
		"a time":            {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(0)}}, true},
		"nanoseconds":       {&corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(1)}}, false},
		"nanoseconds deep":  {&corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{}, {State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(1)}}}}}}, false},
		"microseconds":      {&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: micro(5000)}}, true},
		"less":              {&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{RenewTime: micro(5001)}}, false},
		"a kind":            {&corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod"}}, true},
		"a kind inside":     {&corev1.PodList{Items: []corev1.Pod{{TypeMeta: metav1.TypeMeta{Kind: "Pod"}}}}, false},
		"a quantity":        {&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{asks("250m"), asks("1536Mi"), asks("100Ti"), asks("2")}}}, true},
		"a strange one":     {&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{asks("100000000000000000000000000000")}}}, false},
		"bytes":             {&appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: []byte("{}")}}, true},
		"an object":         {&appsv1.ControllerRevision{Data: runtime.RawExtension{Object: &corev1.Pod{}}}, false},
		"an empty map":      {&corev1.ConfigMap{Data: map[string]string{}}, false},
		"an empty slice":    {&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Args: []string{}}}}}, false},
		"no bytes":          {&corev1.Secret{Data: map[string][]byte{"a": {}}}, true},
		"nil bytes":         {&corev1.Secret{Data: map[string][]byte{"a": nil}}, false},
		"no values":         {&authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{User: authenticationv1.UserInfo{Extra: map[string]authenticationv1.ExtraValue{"a": nil}}}}, false},
		"another zone":      {created(time.Unix(1_700_000_000, 0).UTC()), false},
		"zero in a zone":    {created(time.Time{}.In(time.FixedZone("", 3600))), false},
		"as written":        {&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{asks("1000m")}}}, false},
		"a pointer to zero": {&corev1.Pod{Spec: corev1.PodSpec{Priority: new(int32), SecurityContext: &corev1.PodSecurityContext{}}}, true},
	} {
		if got := decoderFor(reflect.TypeOf(test.object)).keeps(test.object); got != test.keeps {
			t.Errorf("%s: Keeps is %t", name, got)
		} else if got && !survives(t, test.object) {
			t.Errorf("%s is not kept", name)
		}
	}
}
