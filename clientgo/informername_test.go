//go:build !oldest

package clientgo

// This file is left out of builds with the oldest supported client-go, whose informers ignore the
// metrics provider that a program sets.

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// gauges is a metrics provider for client-go. It stores the values of the metrics. A process can
// set only one provider.
type gauges struct {
	mu      sync.Mutex
	changed chan struct{}
	values  map[string]float64
}

var publishedGauges = &gauges{changed: make(chan struct{}), values: map[string]float64{}}

type gauge string

func (g gauge) Set(value float64)     { publishedGauges.set(string(g), value) }
func (g gauge) Observe(value float64) {}

func (g *gauges) set(name string, value float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.values[name] = value
	close(g.changed)
	g.changed = make(chan struct{})
}

// provide creates a gauge with the value 0, as component-base does.
func (g *gauges) provide(metric string, id cache.InformerNameAndResource) gauge {
	name := metric + " " + id.Name() + " " + id.GroupVersionResource().Resource
	g.set(name, 0)
	return gauge(name)
}

func (g *gauges) NewQueuedItemMetric(id cache.InformerNameAndResource) cache.GaugeMetric {
	return g.provide("queued_items", id)
}

func (g *gauges) NewProcessingLatencyMetric(id cache.InformerNameAndResource) cache.HistogramMetric {
	return g.provide("processing_latency", id)
}

func (g *gauges) NewStoreResourceVersionMetric(id cache.InformerNameAndResource) cache.GaugeMetric {
	return g.provide("store_resource_version", id)
}

func (g *gauges) await(t *testing.T, name, value string) {
	t.Helper()
	for timeout := time.After(waitTimeout); ; {
		g.mu.Lock()
		has, ok := g.values[name]
		changed := g.changed
		g.mu.Unlock()
		if ok && strconv.FormatFloat(has, 'f', -1, 64) == value {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("%s is %v (there: %v), want %s", name, has, ok, value)
		}
	}
}

// TestInformerNamePublishes uses an informer of client-go and an informer of Weir, both with a
// name. Each must publish its resourceVersion as a metric after the first list and after a change.
func TestInformerNamePublishes(t *testing.T) {
	cache.SetInformerMetricsProvider(publishedGauges)
	server := serve(t, apiserver.Options{})
	plain := fill(t, server.Config(), configMap("one", "a", nil))
	client := kubernetes.NewForConfigOrDie(capturing(server.Config()))
	for maker, factory := range map[string]func(*cache.InformerName) informers.SharedInformerFactory{
		"client-go": func(name *cache.InformerName) informers.SharedInformerFactory {
			return informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithInformerName(name))
		},
		"weir": func(name *cache.InformerName) informers.SharedInformerFactory {
			return NewSharedInformerFactoryWithOptions(client, 0, WithInformerName(name))
		},
	} {
		t.Run(maker, func(t *testing.T) {
			name, err := cache.NewInformerName("publishes-" + maker)
			check.NoError(t, err)
			f := factory(name)
			inf, series := f.Core().V1().ConfigMaps().Informer(), "store_resource_version publishes-"+maker+" configmaps"
			begin(t, f)
			publishedGauges.await(t, series, inf.LastSyncResourceVersion())
			made := create(t, plain, configMap("one", "by-"+maker, nil))
			publishedGauges.await(t, series, made.ResourceVersion)
		})
	}
}
