//go:build !weir_safe

package debug

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/internal/testing/check"
)

// dropIn returns two functions: run runs a drop-in, and synced waits until the drop-in has synced.
func dropIn(inf cache.SharedIndexInformer) (run, synced func(context.Context) error) {
	run = func(ctx context.Context) error { inf.RunWithContext(ctx); return nil }
	synced = func(ctx context.Context) error {
		if !cache.WaitForCacheSync(ctx.Done(), inf.HasSynced) {
			return ctx.Err()
		}
		return nil
	}
	return run, synced
}

// TestDropInScope checks that the page shows the namespace and the selectors of a drop-in's
// requests, and scopeUnknown if the drop-in cannot see the requests.
func TestDropInScope(t *testing.T) {
	server, err := apiserver.New(apiserver.Options{})
	check.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	check.NoError(t, server.Start())
	narrow := func(o *metav1.ListOptions) { o.LabelSelector, o.FieldSelector = "app=web", "metadata.name=a" }
	for _, tc := range []struct {
		name string
		opts []clientgo.Option
		want reflectorState
	}{
		{"all", nil, reflectorState{}},
		{"narrow", []clientgo.Option{clientgo.WithNamespace("shop"), clientgo.WithTweakListOptions(narrow)},
			reflectorState{Namespace: "shop", Selector: "app=web metadata.name=a"}},
		{"not captured", []clientgo.Option{clientgo.WithNamespace("shop"), clientgo.WithOptions(clientgo.Options{NoCapture: true})},
			reflectorState{ScopeUnknown: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			factory := clientgo.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(server.Config()), 0, tc.opts...)
			run, synced := dropIn(factory.Core().V1().Pods().Informer())
			untilEnd(t, run, synced)
			all := reportAll().Informers
			if len(all) != 1 || len(all[0].Reflectors) != 1 {
				t.Fatalf("%+v", all)
			}
			if got := all[0].Reflectors[0]; got.Namespace != tc.want.Namespace || got.Selector != tc.want.Selector || got.ScopeUnknown != tc.want.ScopeUnknown {
				t.Errorf("%q %q, unknown: %t", got.Namespace, got.Selector, got.ScopeUnknown)
			}
		})
	}
}

// TestHistoryOfSecretMetadata checks that the history of metadata hides the same fields as the
// history of a Secret. Metadata does not state whether its object is a Secret.
func TestHistoryOfSecretMetadata(t *testing.T) {
	resource := corev1.SchemeGroupVersion.WithResource("secrets")
	for name, begin := range map[string]func(*testing.T, *rest.Config) (run, synced func(context.Context) error){
		"typed API": func(t *testing.T, cfg *rest.Config) (run, synced func(context.Context) error) {
			inf, err := weir.NewInformer[*metav1.PartialObjectMetadata](cfg, weir.Options{Resource: resource})
			check.NoError(t, err)
			return inf.Run, inf.WaitForSync
		},
		"drop-in": func(t *testing.T, cfg *rest.Config) (run, synced func(context.Context) error) {
			factory := clientgo.NewMetadataSharedInformerFactory(metadata.NewForConfigOrDie(cfg), 0)
			return dropIn(factory.ForResource(resource).Informer())
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLooking(t)
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Annotations: map[string]string{"k": secret}}}
			s, err := l.client.CoreV1().Secrets("default").Create(t.Context(), s, metav1.CreateOptions{})
			check.NoError(t, err)
			run, synced := begin(t, l.config)
			untilEnd(t, run, synced)
			if i := reportAll().Informers[0]; i.APIVersion != "v1" || i.Kind != "" || i.Resource != "secrets" {
				t.Errorf("shown as %q %q of %q", i.APIVersion, i.Kind, i.Resource)
			}
			s.Labels, s.Annotations = map[string]string{"app": "web"}, map[string]string{"k": secret + "!", "new": secret}
			l.expectUpdate(s, "~ metadata.annotations.k: (hidden), differs", "+ metadata.annotations.new: (hidden)", "+ metadata.labels.app: web")
		})
	}
}
