//go:build !weir_safe

package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

func TestDropIn(t *testing.T) {
	server := serve(t)
	factory := clientgo.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(server.Config()), 0)
	inf := factory.Core().V1().Pods().Informer()
	r, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) {}})
	check.NoError(t, err)
	startDropIn(t, inf, r.HasSynced)
	compare(t, `
# HELP weir_informer_decoded_reads_total Reads of decoded objects: a hit found the object decoded, a miss decoded it.
# TYPE weir_informer_decoded_reads_total counter
weir_informer_decoded_reads_total{group="",kind="Pod",name="*v1.Pod",result="hit",version="v1"} 0
weir_informer_decoded_reads_total{group="",kind="Pod",name="*v1.Pod",result="miss",version="v1"} 30
# HELP weir_informer_failing_reflectors Reflectors with an error that prevents them from being current.
# TYPE weir_informer_failing_reflectors gauge
weir_informer_failing_reflectors{group="",kind="Pod",name="*v1.Pod",version="v1"} 0
# HELP weir_informer_objects Stored objects.
# TYPE weir_informer_objects gauge
weir_informer_objects{group="",kind="Pod",name="*v1.Pod",version="v1"} 30
# HELP weir_informer_handler_events_total Events passed to the handler, resyncs included.
# TYPE weir_informer_handler_events_total counter
weir_informer_handler_events_total{group="",handler="cache.ResourceEventHandlerFuncs",kind="Pod",name="*v1.Pod",version="v1"} 30
`, "decoded_reads_total", "failing_reflectors", "objects", "handler_events_total")
	if n := testutil.CollectAndCount(NewCollector()); n < 20 {
		t.Errorf("%d series", n)
	}
}

// TestShadow checks the metrics of an informer that is compared with a shadow.
func TestShadow(t *testing.T) {
	server := serve(t)
	factory := clientgo.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(server.Config()), 0, clientgo.WithOptions(clientgo.Options{Shadow: clientgo.ShadowWeir}))
	startDropIn(t, factory.Core().V1().Pods().Informer())
	want := `
# HELP weir_informer_shadow_differences_total Differences between an informer and its shadow.
# TYPE weir_informer_shadow_differences_total counter
weir_informer_shadow_differences_total{group="",kind="Pod",name="*v1.Pod",version="v1"} 0
# HELP weir_informer_shadow_versions_total Versions of objects, by what the comparison of an informer with its shadow did with them.
# TYPE weir_informer_shadow_versions_total counter
weir_informer_shadow_versions_total{group="",kind="Pod",name="*v1.Pod",result="content",version="v1"} 30
weir_informer_shadow_versions_total{group="",kind="Pod",name="*v1.Pod",result="event",version="v1"} 30
weir_informer_shadow_versions_total{group="",kind="Pod",name="*v1.Pod",result="not-comparable",version="v1"} 0
weir_informer_shadow_versions_total{group="",kind="Pod",name="*v1.Pod",result="only-client-go",version="v1"} 0
weir_informer_shadow_versions_total{group="",kind="Pod",name="*v1.Pod",result="only-weir",version="v1"} 0
`
	testenv.EventuallyNoError(t, t.Context(), "all pods are compared", func() error {
		return testutil.CollectAndCompare(NewCollector(), strings.NewReader(want), prefix+"shadow_differences_total", prefix+"shadow_versions_total")
	})
}

// TestRemovedHandler removes one of several handlers with the same name. The totals of these
// handlers must not fall, because Prometheus' rate would treat that as a restart. The series must
// disappear when the last handler is removed.
func TestRemovedHandler(t *testing.T) {
	server := serve(t)
	factory := clientgo.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(server.Config()), 0)
	inf := factory.Core().V1().Pods().Informer()
	var handlers []cache.ResourceEventHandlerRegistration
	var synced []cache.InformerSynced
	for range 2 {
		r, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) {}})
		check.NoError(t, err)
		handlers, synced = append(handlers, r), append(synced, r.HasSynced)
	}
	startDropIn(t, inf, synced...)
	want := `
# HELP weir_informer_handler_events_total Events passed to the handler, resyncs included.
# TYPE weir_informer_handler_events_total counter
weir_informer_handler_events_total{group="",handler="cache.ResourceEventHandlerFuncs",kind="Pod",name="*v1.Pod",version="v1"} 60
`
	for n, r := range handlers {
		compare(t, want, "handler_events_total")
		check.NoError(t, inf.RemoveEventHandler(r))
		if n == 1 {
			compare(t, "", "handler_events_total")
		}
	}
}
