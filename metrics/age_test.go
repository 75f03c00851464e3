package metrics

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestAges checks that the exported ages match the informer's status, in seconds.
func TestAges(t *testing.T) {
	inf, err := weir.NewInformer[*corev1.Pod](serve(t).Config(), weir.Options{})
	check.NoError(t, err)
	start(t, func(ctx context.Context) { _ = inf.Run(ctx) })
	wait(t, inf.WaitForSync)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewCollector())
	gauge := func(name string) (value float64) {
		families, err := registry.Gather()
		check.NoError(t, err)
		for _, f := range families {
			if f.GetName() == prefix+name {
				return f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		t.Fatalf("there is no %s", name)
		return 0
	}
	for name, of := range map[string]func(weir.Status) time.Time{
		"age_seconds":       func(s weir.Status) time.Time { return s.LastContact },
		"state_age_seconds": func(s weir.Status) time.Time { return s.CurrentAsOf },
	} {
		began, before := time.Now(), of(inf.Status()[0])
		age := gauge(name)
		// The times may have changed while the metrics were collected, because the start of the watch
		// also counts as contact with the server.
		after, ended := of(inf.Status()[0]), time.Now()
		if before.IsZero() || age < began.Sub(after).Seconds() || age > ended.Sub(before).Seconds() {
			t.Errorf("%s is %v: from %v to %v, which had happened at %v and %v", name, age, began, ended, before, after)
		}
	}
}
