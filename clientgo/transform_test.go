package clientgo

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"weak"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// slimPod is the type of the objects that a transform returns for pods.
type slimPod struct {
	metav1.ObjectMeta
	Node string
}

// TestTransform checks that transforms have the same effect on Weir's informer as on client-go's.
func TestTransform(t *testing.T) {
	transforms := map[string]func(any) (any, error){
		"same type": func(obj any) (any, error) {
			p := obj.(*corev1.Pod)
			p.Spec = corev1.PodSpec{}
			return p, nil
		},
		"another type": func(obj any) (any, error) {
			p := obj.(*corev1.Pod)
			return &slimPod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, ResourceVersion: p.ResourceVersion, Labels: p.Labels}, Node: p.Spec.NodeName}, nil
		},
		"with the kind": func(obj any) (any, error) {
			p := obj.(*corev1.Pod)
			p.Kind, p.APIVersion = "Pod", "v1"
			return p, nil
		},
		"only the metadata": func(obj any) (any, error) {
			m, err := meta.Accessor(obj)
			if err != nil {
				return nil, err
			}
			return meta.AsPartialObjectMetadata(m), nil
		},
	}
	for name, transform := range transforms {
		var got []string
		for maker, make := range bothConstructors {
			t.Run(name+"/"+maker, func(t *testing.T) {
				s := newRecordedInformer(t, make)
				check.NoError(t, s.informer.SetTransform(transform))
				s.source.Add(pod("a", "1"))
				s.start(t)
				if err := s.informer.SetTransform(transform); err == nil {
					t.Error("a transform was set after the start")
				}
				s.source.Modify(pod("a", "2"))
				s.source.Add(pod("b", "1"))
				s.calls.wait(t, "add d/b@3 v=1")
				s.source.Delete(pod("a", "2"))
				s.calls.waitCount(t, 4)
				held := s.informer.GetStore().List()
				s.stop()
				slices.Sort(s.calls.lines)
				line := fmt.Sprintf("%s %T %s", s.calls.sorted(), held[0], shown(held))
				if p, ok := held[0].(*corev1.Pod); ok {
					line += p.Kind + p.Spec.NodeName
				}
				if p, ok := held[0].(*slimPod); ok {
					line += p.Node
				}
				got = append(got, line)
			})
		}
		if len(got) == 2 && got[0] != got[1] {
			t.Errorf("%s differs:\n%s\n%s", name, got[0], got[1])
		}
	}
}

// TestTransformCaptured checks that a transform receives the decoded objects of a captured
// response, and that the informer encodes the result.
func TestTransformCaptured(t *testing.T) {
	server := serve(t, apiserver.Options{Pods: 50})
	cfg := capturing(server.Config())
	cfg.ContentType = k8sruntime.ContentTypeProtobuf
	inf := NewSharedIndexInformer(podsOf(cfg), &corev1.Pod{}, 0, nil).(*informer)
	calls := 0
	check.NoError(t, inf.SetTransform(func(obj any) (any, error) {
		calls++
		p := obj.(*corev1.Pod)
		if calls == 7 {
			return nil, errors.New("not this one")
		}
		p.Spec.Tolerations[0].Key += "+" // changes a slice that no other pod may share
		p.ManagedFields, p.Spec, p.Status = nil, corev1.PodSpec{NodeName: "transformed", Tolerations: p.Spec.Tolerations}, corev1.PodStatus{}
		return p, nil
	}))
	runSynced(t, inf)
	all := inf.GetStore().List()
	if len(all) != 50 {
		t.Errorf("%d pods, want all, after a second list", len(all))
	}
	for _, obj := range all {
		if p := obj.(*corev1.Pod); p.Spec.NodeName != "transformed" || p.ManagedFields != nil || strings.Count(p.Spec.Tolerations[0].Key, "+") != 1 {
			t.Fatalf("not transformed: %v", p)
		}
	}
	if raw := inf.store.Memory().Raw; raw == 0 || raw > 50*1000 {
		t.Errorf("%d raw bytes", raw)
	}
}

// TestSlimmingTransform uses a transform that copies a few strings and the start time of each pod
// into a new pod. A handler keeps the start times. The pods that the informer decoded for the
// transform must not stay in memory, and the client itself must decode no pod.
func TestSlimmingTransform(t *testing.T) {
	const count = 50
	server := serve(t, apiserver.Options{Pods: count})
	cfg := capturing(server.Config())
	cfg.ContentType = k8sruntime.ContentTypeProtobuf
	pods := kubernetes.NewForConfigOrDie(cfg).CoreV1().Pods("")
	throughClient := 0
	lw := listWatchOf(pods)
	lw.ListWithContextFunc = func(ctx context.Context, o metav1.ListOptions) (k8sruntime.Object, error) {
		list, err := pods.List(ctx, o)
		if err == nil {
			throughClient += len(list.Items)
		}
		return list, err
	}
	inf := NewSharedInformer(lw, &corev1.Pod{}, 0)
	var decoded []weak.Pointer[corev1.Pod]
	check.NoError(t, inf.SetTransform(func(obj any) (any, error) {
		p := obj.(*corev1.Pod)
		decoded = append(decoded, weak.Make(p))
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID, Labels: p.Labels},
			Spec:       corev1.PodSpec{NodeName: p.Spec.NodeName},
			Status:     corev1.PodStatus{StartTime: p.Status.StartTime},
		}, nil
	}))
	var mu sync.Mutex
	times := map[string]*metav1.Time{}
	handler, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		p := obj.(*corev1.Pod)
		mu.Lock()
		defer mu.Unlock()
		times[p.Namespace+"/"+p.Name] = p.Status.StartTime
	}})
	check.NoError(t, err)
	stop := run(t, inf)
	synced(t, handler)
	stop()
	runtime.GC()
	kept := 0
	for _, p := range decoded {
		if p.Value() != nil {
			kept++
		}
	}
	if len(decoded) != count || len(times) != count || kept > 0 {
		t.Errorf("%d pods were transformed and %d handled of %d; %d are kept", len(decoded), len(times), count, kept)
	}
	if throughClient > 0 {
		t.Errorf("%d pods came through the client", throughClient)
	}
	runtime.KeepAlive(times)
}

// TestTransformInPlace uses transforms that remove most of each pod, or build a new pod of its
// parts, and leave an empty list, for which the informer cannot store the pod encoded. The parts of
// a decoded pod are one allocation, so the informer must store a copy, or what was removed stays in
// memory.
func TestTransformInPlace(t *testing.T) {
	const count = 50
	server := serve(t, apiserver.Options{Pods: count})
	inPlace := func(p *corev1.Pod) *corev1.Pod {
		p.ManagedFields, p.Status = nil, corev1.PodStatus{}
		p.Spec = corev1.PodSpec{NodeName: p.Spec.NodeName, InitContainers: []corev1.Container{}}
		return p
	}
	ofParts := func(p *corev1.Pod) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: p.ObjectMeta, Spec: corev1.PodSpec{
			NodeName: p.Spec.NodeName, Tolerations: p.Spec.Tolerations, InitContainers: []corev1.Container{},
		}}
	}
	for name, test := range map[string]struct {
		opts      Options
		transform func(*corev1.Pod) *corev1.Pod
	}{
		"default":          {Options{}, inPlace},
		"pinned":           {Options{PinDecoded: true}, inPlace},
		"of parts":         {Options{}, ofParts},
		"of parts, pinned": {Options{PinDecoded: true}, ofParts},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := capturing(server.Config())
			cfg.ContentType = k8sruntime.ContentTypeProtobuf
			inf := NewSharedIndexInformerWithOptions(podsOf(cfg), &corev1.Pod{}, 0, nil, test.opts)
			var decoded []weak.Pointer[corev1.Pod]
			check.NoError(t, inf.SetTransform(func(obj any) (any, error) {
				p := obj.(*corev1.Pod)
				decoded = append(decoded, weak.Make(p))
				return test.transform(p), nil
			}))
			runSynced(t, inf)
			all := inf.GetStore().List()
			check.Equal(t, len(all), count, "pods")
			for _, obj := range all {
				if p := obj.(*corev1.Pod); p.Spec.InitContainers == nil || p.Spec.NodeName == "" || len(p.Labels) == 0 {
					t.Fatalf("changed: %v", p)
				}
			}
			runtime.GC()
			for _, p := range decoded {
				if p.Value() != nil {
					t.Fatal("a decoded pod stays in memory")
				}
			}
			runtime.KeepAlive(all)
		})
	}
}
