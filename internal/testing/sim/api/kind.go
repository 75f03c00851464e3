package api

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Annotations that every object carries.
const (
	IDAnnotation     = "id"     // of its version
	SchemaAnnotation = "schema" // that the server had when it wrote it
	NodeAnnotation   = "node"   // the same as the field: for those that see metadata only
)

// Kind is what the servers serve.
type Kind struct {
	schema.GroupVersionResource
	Kind string
	// Protobuf says that the kind is built in, and served as protobuf to clients that ask for that.
	Protobuf bool
}

// Widgets are custom resources, ConfigMaps built in.
var (
	Widgets    = &Kind{GroupVersionResource: schema.GroupVersionResource{Group: "sim.example.com", Version: "v1", Resource: "widgets"}, Kind: "Widget"}
	ConfigMaps = &Kind{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps"), Kind: "ConfigMap", Protobuf: true}
)

func (k *Kind) apiVersion() string { return k.GroupVersion().String() }

// ConfigMap returns a representation as a ConfigMap. It shares the version's labels: do not modify
// them.
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

// encoding is one way to write a version.
type encoding struct {
	Representation
	order    int
	protobuf bool
	untyped  bool // without apiVersion and kind, as items of built-in lists are
	partial  bool // its metadata only
}

// object returns the bytes of a version as a server writes it, and remembers them for
// RepresentationOf. The result is shared; do not modify it. The caller holds the lock.
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
		raw = c.Kind.appendJSON(nil, enc)
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

// names returns the apiVersion and the kind that objects have or, if partial, their metadata alone.
func (k *Kind) names(partial bool) (apiVersion, kind string) {
	if partial {
		return "meta.k8s.io/v1", "PartialObjectMetadata"
	}
	return k.GroupVersion().String(), k.Kind
}

// appendJSON appends an object to b as JSON, with its keys in one of the legal orders.
func (k *Kind) appendJSON(b []byte, enc encoding) []byte {
	apiVersion, kind := k.names(enc.partial)
	fields := []func([]byte) []byte{
		func(b []byte) []byte { return append(append(append(b, `"apiVersion":"`...), apiVersion...), '"') },
		func(b []byte) []byte { return append(append(append(b, `"kind":"`...), kind...), '"') },
		func(b []byte) []byte { return appendMeta(append(b, `"metadata":`...), enc) },
		func(b []byte) []byte {
			return append(append(append(append(b, '"'), k.payload()...), `":{"node":"`...), enc.Version.Node+`"}`...)
		},
	}
	if enc.partial {
		fields = fields[:3]
	}
	switch names, rest := fields[:2], fields[2:]; {
	case enc.untyped:
		fields = permute(rest, enc.order)
	case k.Protobuf: // a Go type has them in front
		fields = append(names, permute(rest, enc.order)...)
	default:
		fields = permute(fields, enc.order)
	}
	return appendObject(b, fields)
}

func (k *Kind) payload() string {
	if k.Protobuf {
		return "data"
	}
	return "spec"
}

func appendMeta(b []byte, enc encoding) []byte {
	v := enc.Version
	str := func(key, value string) func([]byte) []byte {
		return func(b []byte) []byte {
			return append(append(append(append(append(b, '"'), key...), `":"`...), value...), '"')
		}
	}
	fields := []func([]byte) []byte{
		str("namespace", v.Key.Namespace), str("name", v.Key.Name), str("uid", v.UID), str("resourceVersion", enc.ResourceVersion()),
		func(b []byte) []byte {
			return append(append(append(append(append(b, `"annotations":{"id":"`...), strconv.Itoa(v.ID)...), `","schema":"`...), strconv.Itoa(enc.Schema)...), `","node":"`+v.Node+`"}`...)
		},
		func(b []byte) []byte {
			b = append(b, `"labels":{`...)
			sep := ""
			for _, l := range []string{"app", "tier"} {
				if value, ok := v.Labels[l]; ok {
					b = append(append(b, sep...), `"`+l+`":"`+value+`"`...)
					sep = ","
				}
			}
			return append(b, '}')
		},
	}
	return appendObject(b, permute(fields, enc.order))
}

func appendObject(b []byte, fields []func([]byte) []byte) []byte {
	b = append(b, '{')
	for i, f := range fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = f(b)
	}
	return append(b, '}')
}

// permute reorders a slice into its n-th order, and returns it.
func permute[T any](s []T, n int) []T {
	for i := len(s); i > 1; i-- {
		j := n % i
		n /= i
		s[i-1], s[j] = s[j], s[i-1]
	}
	return s
}

// stripEnvelope returns the protobuf message that an envelope contains. It returns other bytes as
// they are.
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
