package api

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Annotations of every object.
const (
	IDAnnotation     = "id"     // the version's ID
	SchemaAnnotation = "schema" // the schema at the time when the server sent the object
	NodeAnnotation   = "node"   // a copy of the field node, for clients that receive only metadata
)

// Kind is the resource that the servers of a cluster serve.
type Kind struct {
	schema.GroupVersionResource
	Kind string
	// Protobuf is true for a built-in kind, which servers send as protobuf to clients that accept
	// protobuf.
	Protobuf bool
}

// Widgets are custom resources. ConfigMaps and Secrets are built-in kinds. The servers encode a
// Secret as a ConfigMap, because both have the same encoding if their data is empty.
var (
	Widgets    = &Kind{GroupVersionResource: schema.GroupVersionResource{Group: "sim.example.com", Version: "v1", Resource: "widgets"}, Kind: "Widget"}
	Secrets    = &Kind{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets"), Kind: "Secret", Protobuf: true}
	ConfigMaps = &Kind{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps"), Kind: "ConfigMap", Protobuf: true}
)

// ConfigMap returns a representation as a ConfigMap. The ConfigMap shares its labels with the
// version; do not modify them.
func ConfigMap(rep Representation) *corev1.ConfigMap {
	v := rep.Version
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: v.Key.Namespace, Name: v.Key.Name, UID: types.UID(v.UID), ResourceVersion: rep.ResourceVersion(), Labels: v.Labels,
			Annotations: map[string]string{IDAnnotation: strconv.Itoa(v.ID), SchemaAnnotation: strconv.Itoa(rep.Schema), NodeAnnotation: v.Node},
		},
		Data: map[string]string{"node": v.Node},
	}
}

// encoding identifies the form in which a server sends a representation.
type encoding struct {
	Representation
	order    int
	protobuf bool
	untyped  bool // without apiVersion and kind, like the items of lists of built-in kinds
	partial  bool // only the metadata
}

// object returns the bytes that a server sends for an encoding, and stores them for
// RepresentationOf. The result is shared; do not modify it. The caller must hold c.mu.
func (c *Cluster) object(enc encoding) []byte {
	if raw, ok := c.encoded[enc]; ok {
		return raw
	}
	var raw []byte
	switch cm := ConfigMap(enc.Representation); {
	case enc.protobuf && enc.partial:
		raw = marshal(&metav1.PartialObjectMetadata{ObjectMeta: cm.ObjectMeta})
	case enc.protobuf:
		raw = marshal(cm)
	default:
		raw = []byte(c.Kind.json(enc))
	}
	c.encoded[enc] = raw
	c.written[string(raw)] = enc.Representation
	return raw
}

func marshal(m interface{ Marshal() ([]byte, error) }) []byte {
	raw, err := m.Marshal()
	if err != nil {
		panic(err)
	}
	return raw
}

// names returns the apiVersion and kind of PartialObjectMetadata if partial is true, and of k
// otherwise.
func (k *Kind) names(partial bool) (apiVersion, kind string) {
	if partial {
		return "meta.k8s.io/v1", "PartialObjectMetadata"
	}
	return k.GroupVersion().String(), k.Kind
}

// json returns an object as JSON. enc.order decides the order of the keys.
func (k *Kind) json(enc encoding) string {
	apiVersion, kind := k.names(enc.partial)
	payload := "spec"
	if k.Protobuf {
		payload = "data"
	}
	names := []string{`"apiVersion":"` + apiVersion + `"`, `"kind":"` + kind + `"`}
	rest := []string{`"metadata":` + metaJSON(enc), fmt.Sprintf(`"%s":{"node":"%s"}`, payload, enc.Version.Node)}
	if enc.partial {
		rest = rest[:1]
	}
	switch {
	case enc.untyped:
		return object(permute(rest, enc.order))
	case k.Protobuf: // servers encode built-in kinds from Go structs, with apiVersion and kind first
		return object(append(names, permute(rest, enc.order)...))
	}
	return object(permute(append(names, rest...), enc.order))
}

func metaJSON(enc encoding) string {
	v := enc.Version
	var labels []string
	for _, l := range []string{"app", "tier"} {
		if value, ok := v.Labels[l]; ok {
			labels = append(labels, `"`+l+`":"`+value+`"`)
		}
	}
	return object(permute([]string{
		`"namespace":"` + v.Key.Namespace + `"`, `"name":"` + v.Key.Name + `"`, `"uid":"` + v.UID + `"`, `"resourceVersion":"` + enc.ResourceVersion() + `"`,
		fmt.Sprintf(`"annotations":{"id":"%d","schema":"%d","node":"%s"}`, v.ID, enc.Schema, v.Node), `"labels":` + object(labels),
	}, enc.order))
}

func object(fields []string) string { return "{" + strings.Join(fields, ",") + "}" }

// permute reorders s in place into the n-th permutation of its elements, and returns it.
func permute[T any](s []T, n int) []T {
	for i := len(s); i > 1; i-- {
		j := n % i
		n /= i
		s[i-1], s[j] = s[j], s[i-1]
	}
	return s
}

// stripEnvelope returns the protobuf message in kube-apiserver's envelope. Bytes without an
// envelope are returned unchanged.
func stripEnvelope(raw []byte) []byte {
	if len(raw) < 4 || string(raw[:4]) != "k8s\x00" {
		return raw
	}
	var u runtime.Unknown
	if u.Unmarshal(raw[4:]) != nil {
		return raw
	}
	return u.Raw
}
