package storage

import (
	"encoding/json"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/serve/watchcache"
)

// The suites write and expect example.Pod, the internal version of what the watch cache holds and
// serves, examplev1.Pod.
var (
	scheme = newScheme()
	codecs = serializer.NewCodecFactory(scheme)
	// etcdCodec is how kube-apiserver's store keeps pods in etcd.
	etcdCodec = newEtcdCodec()
)

const resourcePrefix = "/pods/"

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, metav1.SchemeGroupVersion)
	metav1.AddToGroupVersion(s, examplev1.SchemeGroupVersion)
	for _, add := range []func(*runtime.Scheme) error{example.AddToScheme, examplev1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}

func newEtcdCodec() runtime.Codec {
	p := protobuf.NewSerializer(scheme, scheme)
	return codecs.CodecForVersions(p, p, examplev1.SchemeGroupVersion, runtime.InternalGroupVersioner)
}

// podsResource is what the watch cache serves.
func podsResource(namespaced bool) watchcache.Resource {
	return watchcache.Resource{
		GroupVersionResource: examplev1.SchemeGroupVersion.WithResource("pods"),
		Kind:                 "Pod",
		Namespaced:           namespaced,
		Type:                 reflect.TypeFor[examplev1.Pod](),
		Fields:               []watchcache.Field{{Label: "spec.nodeName", Paths: []string{"spec.nodeName"}}},
	}
}

// encodePod returns a pod as the watch cache holds it.
func encodePod(enc wire.Encoding, object runtime.Object) ([]byte, error) {
	var pod examplev1.Pod
	if err := scheme.Convert(object, &pod, nil); err != nil {
		return nil, err
	}
	if enc == wire.Protobuf {
		return pod.Marshal()
	}
	pod.APIVersion, pod.Kind = examplev1.SchemeGroupVersion.String(), "Pod"
	return json.Marshal(&pod)
}

// internal returns what a client was given as the suites know it: a pod in the internal version, or
// a Status.
func internal(object runtime.Object) (runtime.Object, error) {
	switch o := object.(type) {
	case *metav1.Status:
		return o, nil
	case *examplev1.Pod:
		pod := &example.Pod{}
		return pod, scheme.Convert(o, pod, nil)
	}
	return nil, fmt.Errorf("a %T is none of what a watch of pods gives", object)
}
