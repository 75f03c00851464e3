package clientgo

import (
	"context"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// notServed is a transport to a server that has no such resource.
type notServed struct{}

func (notServed) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
}

// reflectorsDescription runs an informer whose lists fail, and returns how the Reflector that its
// watch error handler receives describes the listed objects. The default handler logs that.
func reflectorsDescription(t *testing.T, inf cache.SharedIndexInformer) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var description string
	if err := inf.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) {
		if cancel(); description == "" {
			description = r.TypeDescription()
		}
	}); err != nil {
		t.Fatal(err)
	}
	inf.RunWithContext(ctx)
	return description
}

// TestReflectorsDescription checks that watch error handlers receive a description of the listed
// objects: the informer's description, or else the example's type, as in client-go. An informer of
// the metadata factory, which client-go does not describe, has its resource.
func TestReflectorsDescription(t *testing.T) {
	cfg := &rest.Config{Host: "http://server", Transport: notServed{}}
	typed, byResource, partial := kubernetes.NewForConfigOrDie(cfg), dynamic.NewForConfigOrDie(cfg), metadata.NewForConfigOrDie(cfg)
	described := func() cache.SharedIndexInformer {
		return cache.NewSharedIndexInformerWithOptions(podsOf(cfg), &corev1.Pod{}, cache.SharedIndexInformerOptions{ObjectDescription: "my pods"})
	}
	for name, test := range map[string]struct {
		ours, theirs cache.SharedIndexInformer
		want         string
	}{
		"typed": {
			NewSharedInformerFactoryWithOptions(typed, 0).Core().V1().ConfigMaps().Informer(),
			informers.NewSharedInformerFactory(typed, 0).Core().V1().ConfigMaps().Informer(), "*v1.ConfigMap",
		},
		"dynamic": {
			NewDynamicSharedInformerFactoryWithOptions(byResource, 0).ForResource(configMaps).Informer(),
			dynamicinformer.NewDynamicSharedInformerFactory(byResource, 0).ForResource(configMaps).Informer(), "/v1, Resource=configmaps",
		},
		"metadata":  {ours: NewMetadataSharedInformerFactoryWithOptions(partial, 0).ForResource(configMaps).Informer(), want: "/v1, Resource=configmaps"},
		"described": {Adopt(described()), described(), "my pods"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.theirs != nil {
				if got := reflectorsDescription(t, test.theirs); got != test.want {
					t.Errorf("client-go lists %s", got)
				}
			}
			if got := reflectorsDescription(t, test.ours); got != test.want {
				t.Errorf("lists %s, want %s", got, test.want)
			}
		})
	}
}
