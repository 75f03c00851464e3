// Command k8sattributes runs the processor of the OpenTelemetry collector that adds attributes of
// pods to telemetry. It reports the attributes that the processor adds for each simulated pod (see
// package report).
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/k8sattributesprocessor"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirproject/weir/e2e/programs/report"
	"github.com/weirproject/weir/internal/testing/podsim"
)

var podsFlag = flag.Int("pods", 0, "number of pods")

func main() { report.Main(run) }

// settings configure the processor: it finds the pod of telemetry by name, and adds the pod's
// attributes.
var settings = map[string]any{
	"auth_type": "kubeConfig",
	"extract": map[string]any{
		"metadata": []string{"k8s.pod.uid", "k8s.pod.start_time", "k8s.node.name", "k8s.deployment.name", "k8s.replicaset.name"},
		"labels":   []any{map[string]any{"tag_name": "$1", "key_regex": "(.*)", "from": "pod"}},
	},
	"pod_association": []any{map[string]any{"sources": []any{
		map[string]any{"from": "resource_attribute", "name": "k8s.pod.name"},
		map[string]any{"from": "resource_attribute", "name": "k8s.namespace.name"},
	}}},
	"pod_delete_grace_period":   time.Second.String(),
	"wait_for_metadata":         true,
	"wait_for_metadata_timeout": time.Hour.String(),
}

func run() error {
	ctx := context.Background()
	factory := k8sattributesprocessor.NewFactory()
	config := factory.CreateDefaultConfig()
	if err := confmap.NewFromStringMap(settings).Unmarshal(config); err != nil {
		return err
	}
	sink := new(consumertest.LogsSink)
	p, err := factory.CreateLogs(ctx, processortest.NewNopSettings(factory.Type()), config, sink)
	if err != nil {
		return err
	}
	asker := asker{processor: p, sink: sink, pods: namesOf(podsim.New(*podsFlag, 1))}
	if err := p.Start(ctx, componenttest.NewNopHost()); err != nil {
		return err
	}
	defer p.Shutdown(ctx)
	return report.Serve(report.Knowledge{Count: asker.count, All: asker.all})
}

// asker finds the attributes that the processor adds for pods. It sends one empty log per pod
// through the processor.
type asker struct {
	processor processor.Logs
	sink      *consumertest.LogsSink
	pods      []types.NamespacedName
	counted   int
}

// namesOf returns the names of pods. The caller calls it before the processor starts, so that the
// processor's measured memory does not grow later.
func namesOf(pods *podsim.Pods) (names []types.NamespacedName) {
	for i := range pods.Len() {
		pod := pods.Pod(i)
		names = append(names, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	}
	return names
}

// count returns how many pods the processor has received. It continues at the first pod that was
// missing in the last call.
func (a *asker) count() int {
	for a.counted < len(a.pods) && a.ask(a.pods[a.counted], func(pcommon.Map) {}) {
		a.counted++
	}
	return a.counted
}

func (a *asker) all() map[string]any {
	all := map[string]any{}
	for _, pod := range a.pods {
		a.ask(pod, func(got pcommon.Map) { all[pod.String()] = got.AsRaw() })
	}
	return all
}

// ask reports whether the processor has received a pod. If so, it calls the function know with the
// attributes of the processed log.
func (a *asker) ask(pod types.NamespacedName, know func(pcommon.Map)) (known bool) {
	logs := plog.NewLogs()
	of := logs.ResourceLogs().AppendEmpty().Resource().Attributes()
	of.PutStr("k8s.pod.name", pod.Name)
	of.PutStr("k8s.namespace.name", pod.Namespace)
	if err := a.processor.ConsumeLogs(context.Background(), logs); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	for _, out := range a.sink.AllLogs() {
		if got := out.ResourceLogs().At(0).Resource().Attributes(); got.Len() > 2 {
			know(got)
			known = true
		}
	}
	a.sink.Reset()
	return known
}
