package weir

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

type gear struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Teeth             int `json:"teeth"`
}

func (g *gear) DeepCopyObject() runtime.Object { c := *g; return &c }

// ticket has an Unmarshal method, like the generated types of some custom resources, although
// servers send custom resources as JSON.
type ticket struct{ gear }

func (t *ticket) DeepCopyObject() runtime.Object { c := *t; return &c }
func (t *ticket) Unmarshal([]byte) error         { return errors.New("not served as protobuf") }

func TestKindOf(t *testing.T) {
	gears := schema.GroupVersion{Group: "x.example", Version: "v1"}
	known := runtime.NewScheme()
	known.AddKnownTypeWithName(gears.WithKind("gear"), &gear{})
	known.AddKnownTypeWithName(gears.WithKind("ticket"), &ticket{})
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

	check := func(name string, k *objectType, err error, resource string, enc wire.Encoding) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if k.resource.Resource != resource || k.encoding != enc {
			t.Errorf("%s: resource %q in %s, want %q in %s", name, k.resource.Resource, k.encoding, resource, enc)
		}
	}
	k, err := objectTypeOf[*corev1.Pod](Options{})
	check("pod", k, err, "pods", wire.Protobuf)
	k, err = objectTypeOf[*appsv1.Deployment](Options{})
	check("deployment", k, err, "deployments", wire.Protobuf)
	k, err = objectTypeOf[*gear](Options{Scheme: known})
	check("custom resource by scheme", k, err, "", wire.JSON)
	k, err = objectTypeOf[*gear](Options{Resource: gears.WithResource("gearing")})
	check("custom resource by name", k, err, "gearing", wire.JSON)
	k, err = objectTypeOf[*ticket](Options{Scheme: known})
	check("custom resource with Unmarshal", k, err, "", wire.JSON)
	k, err = objectTypeOf[*unstructured.Unstructured](Options{Resource: configMaps})
	check("unstructured", k, err, "configmaps", wire.JSON)
	k, err = objectTypeOf[*metav1.PartialObjectMetadata](Options{Resource: configMaps})
	check("metadata", k, err, "configmaps", wire.Protobuf)

	for name, err := range map[string]error{
		"unknown type":             second(objectTypeOf[*gear](Options{})),
		"unstructured of nothing":  second(objectTypeOf[*unstructured.Unstructured](Options{})),
		"metadata of nothing":      second(objectTypeOf[*metav1.PartialObjectMetadata](Options{})),
		"an interface, no pointer": second(objectTypeOf[Object](Options{})),
	} {
		if !errors.Is(err, ErrInvalidOptions) {
			t.Errorf("%s: %v, want ErrInvalidOptions", name, err)
		}
	}
}

func second[A any](_ A, err error) error { return err }

// TestGuessResource checks the guessed resources of kinds with an irregular plural.
func TestGuessResource(t *testing.T) {
	irregular := map[string]string{
		"Endpoints": "endpoints", "NetworkPolicy": "networkpolicies", "Ingress": "ingresses", "PriorityClass": "priorityclasses",
		"StorageClass": "storageclasses", "EndpointSlice": "endpointslices", "ComponentStatus": "componentstatuses",
		"ValidatingAdmissionPolicy": "validatingadmissionpolicies", "PodSecurityPolicy": "podsecuritypolicies",
		"CSIStorageCapacity": "csistoragecapacities", "ServiceCIDR": "servicecidrs", "IPAddress": "ipaddresses",
	}
	for kind, want := range irregular {
		if got := guessResource(schema.GroupVersionKind{Version: "v1", Kind: kind}).Resource; got != want {
			t.Errorf("%s: guessed %s, want %s", kind, got, want)
		}
	}
}

// TestBuiltinKind checks that builtinKind returns the same kind as client-go's scheme for each
// built-in type.
func TestBuiltinKind(t *testing.T) {
	checked := 0
	for want, goType := range scheme.Scheme.AllKnownTypes() {
		if !strings.HasPrefix(goType.PkgPath(), apiModule) {
			continue // a type that every group registers, such as ListOptions
		}
		checked++
		if got, ok := builtinKind(goType); !ok || got != want {
			t.Errorf("%v: %v, %t; want %v", goType, got, ok, want)
		}
	}
	if checked < 300 {
		t.Errorf("%d types", checked)
	}
	for _, other := range []reflect.Type{reflect.TypeFor[gear](), reflect.TypeFor[metav1.PartialObjectMetadata](), reflect.TypeFor[int]()} {
		if got, ok := builtinKind(other); ok {
			t.Errorf("%v: %v", other, got)
		}
	}
}

func TestDecodeUnstructuredLearnsItsKind(t *testing.T) {
	c := codec.New(reflect.TypeFor[*unstructured.Unstructured]())
	raw := []byte(`{"metadata":{"name":"a"},"n":9007199254740993}`)
	c.SetItemType(wire.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"})
	v, err := c.Decode(raw, nil)
	check.NoError(t, err)
	u := v.(*unstructured.Unstructured)
	if u.GetKind() != "ConfigMap" || u.GetAPIVersion() != "v1" {
		t.Errorf("kind %q of %q", u.GetKind(), u.GetAPIVersion())
	}
	if n, ok := u.Object["n"].(int64); !ok || n != 9007199254740993 {
		t.Errorf("an integer came as %T %v", u.Object["n"], u.Object["n"])
	}
}

// TestListWatchConfig checks that ConfigOf copies each field of a ListWatch and its Backoff to the
// reflector's Config.
func TestListWatchConfig(t *testing.T) {
	l := ListWatch{
		Mode: ModePages, Consistency: ConsistencyAny, PageSize: 1, WatchTimeout: 2 * time.Second, BookmarkDeadline: time.Minute, MaxLists: 3,
		Backoff: Backoff{Min: 4, Max: 5, Denied: 6, Healthy: 7, Random: func() float64 { return 0.5 }},
	}
	cfg := reflector.ConfigOf(l)
	for _, structs := range [][2]reflect.Value{{reflect.ValueOf(l), reflect.ValueOf(cfg)}, {reflect.ValueOf(l.Backoff), reflect.ValueOf(cfg.Backoff)}} {
		for field, value := range structs[0].Fields() {
			got := structs[1].FieldByName(field.Name)
			if !got.IsValid() {
				got = reflect.ValueOf(cfg.Query).FieldByName(field.Name)
			}
			if value.IsZero() {
				t.Errorf("the test leaves %s empty", field.Name)
			}
			if got.IsZero() || value.Comparable() && !got.Convert(value.Type()).Equal(value) {
				t.Errorf("%s of %v becomes %v", field.Name, value, got)
			}
		}
	}
}

func TestScopesOf(t *testing.T) {
	scopes, err := scopesOf(Options{
		Namespaces: []string{"a", "b"},
		Selectors:  []Selector{{Label: "app=web"}, {Label: "x", Field: "metadata.name=y"}},
	})
	check.NoError(t, err)
	want := []string{"a 0 app=web", "b 0 app=web", "a 1 x metadata.name=y", "b 1 x metadata.name=y"}
	if len(scopes) != len(want) {
		t.Fatalf("%d scopes, want %d", len(scopes), len(want))
	}
	for i, s := range scopes {
		check.Equal(t, s.namespace+" "+string('0'+rune(s.owner))+" "+s.String(), want[i], "scope %d", i)
	}
	if scopes, err := scopesOf(Options{}); err != nil || len(scopes) != 1 || scopes[0].namespace != "" {
		t.Errorf("no options give %v, %v", scopes, err)
	}
}

func TestScopesOfBadOptions(t *testing.T) {
	for name, opts := range map[string]Options{
		"all and one namespace": {Namespaces: []string{"", "a"}},
		"a namespace twice":     {Namespaces: []string{"a", "b", "a"}},
		"label selector":        {Selectors: []Selector{{Label: "a=b=c"}}},
		"field selector":        {Selectors: []Selector{{Field: "spec.nodeName"}}},
		"too many selectors":    {Selectors: make([]Selector, 33)},
	} {
		if _, err := scopesOf(opts); !errors.Is(err, ErrInvalidOptions) {
			t.Errorf("%s: %v, want ErrInvalidOptions", name, err)
		}
	}
}
