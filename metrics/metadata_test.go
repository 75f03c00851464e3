//go:build !weir_safe

package metrics

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestMetadata checks the labels of informers of metadata, whose objects do not state their kind.
// group and version must be those of the informer's requests. kind must be the kind that the
// informer's example object states, or "".
func TestMetadata(t *testing.T) {
	server := serve(t)
	factory := clientgo.NewMetadataSharedInformerFactory(metadata.NewForConfigOrDie(server.Config()), 0)
	for _, resource := range []string{"configmaps", "secrets"} {
		resource := corev1.SchemeGroupVersion.WithResource(resource)
		inf, err := weir.NewInformer[*metav1.PartialObjectMetadata](server.Config(), weir.Options{Resource: resource})
		check.NoError(t, err)
		start(t, func(ctx context.Context) { _ = inf.Run(ctx) })
		wait(t, inf.WaitForSync)
		startDropIn(t, factory.ForResource(resource).Informer())
	}
	startDropIn(t, ofDeployments(t, server))
	untilSame(t, `
# HELP weir_informer_synced 1 after the first list of each reflector is stored.
# TYPE weir_informer_synced gauge
weir_informer_synced{group="",kind="",name="configmaps",version="v1"} 1
weir_informer_synced{group="",kind="",name="secrets",version="v1"} 1
weir_informer_synced{group="",kind="",name="/v1, Resource=configmaps",version="v1"} 1
weir_informer_synced{group="",kind="",name="/v1, Resource=secrets",version="v1"} 1
weir_informer_synced{group="apps",kind="Deployment",name="*v1.PartialObjectMetadata",version="v1"} 1
`, "synced")
	want := `
# HELP informer_queued_items The largest number of changes that one of the informer's handlers has not received yet.
# TYPE informer_queued_items gauge
informer_queued_items{group="",name="configmaps",resource="configmaps",version="v1"} 0
informer_queued_items{group="",name="secrets",resource="secrets",version="v1"} 0
informer_queued_items{group="",name="/v1, Resource=configmaps",resource="configmaps",version="v1"} 0
informer_queued_items{group="",name="/v1, Resource=secrets",resource="secrets",version="v1"} 0
informer_queued_items{group="apps",name="*v1.PartialObjectMetadata",resource="deployments",version="v1"} 0
`
	check.NoError(t, testutil.CollectAndCompare(NewClientGoCollector(), strings.NewReader(want), "informer_queued_items"))
}

// untilSame waits until the named metrics equal want, because a reflector may report its sync
// shortly after the informer has synced.
func untilSame(t *testing.T, want string, names ...string) {
	t.Helper()
	for n := range names {
		names[n] = prefix + names[n]
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	testenv.EventuallyNoError(t, ctx, "the metrics are as wanted", func() error {
		return testutil.CollectAndCompare(NewCollector(), strings.NewReader(want), names...)
	})
}

// startDropIn runs a drop-in until the test ends. It returns when the drop-in and the given
// handlers have synced.
func startDropIn(t *testing.T, inf cache.SharedIndexInformer, handlers ...cache.InformerSynced) {
	t.Helper()
	start(t, inf.RunWithContext)
	wait(t, func(ctx context.Context) error {
		if !cache.WaitForCacheSync(ctx.Done(), append(handlers, inf.HasSynced)...) {
			return ctx.Err()
		}
		return nil
	})
}

// ofDeployments returns a drop-in of metadata whose example object states a kind, like
// controller-runtime's.
func ofDeployments(t *testing.T, server *apiserver.Server) cache.SharedIndexInformer {
	t.Helper()
	cfg := server.Config()
	clientgo.Wrap(cfg)
	client, err := metadata.NewForConfig(cfg)
	check.NoError(t, err)
	deployments := client.Resource(appsv1.SchemeGroupVersion.WithResource("deployments"))
	example := &metav1.PartialObjectMetadata{}
	example.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	return clientgo.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return deployments.List(ctx, o)
		},
		WatchFuncWithContext: deployments.Watch,
	}, example, 0, nil)
}
