package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestClientGoNames checks that one registry accepts both collectors, and that NewClientGoCollector
// exports the values of NewCollector under client-go's names and labels.
func TestClientGoNames(t *testing.T) {
	native(t, serve(t), "pods")
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewCollector(), NewClientGoCollector())
	families, err := registry.Gather()
	check.NoError(t, err)
	values := map[string]float64{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "weir_") {
			var labels []string
			for _, l := range f.GetMetric()[0].GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			check.Equal(t, strings.Join(labels, " "), "group= name=pods resource=pods version=v1", "%s", f.GetName())
		}
		values[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
	}
	if rv := values["informer_store_resource_version"]; rv == 0 || rv != values["weir_informer_store_resource_version"] {
		t.Errorf("resourceVersion %v, and %v", rv, values["weir_informer_store_resource_version"])
	}
	if _, there := values["informer_queued_items"]; !there {
		t.Error("there is no informer_queued_items")
	}
	if problems, err := testutil.CollectAndLint(NewClientGoCollector()); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// TestGuessResource checks the guessed resources of some kinds. The resource of an empty kind is
// empty.
func TestGuessResource(t *testing.T) {
	for kind, want := range map[string]string{"Pod": "pods", "Endpoints": "endpoints", "NetworkPolicy": "networkpolicies", "Ingress": "ingresses", "": ""} {
		check.Equal(t, guessResource("", "v1", kind), want, "%s is of", kind)
	}
}
