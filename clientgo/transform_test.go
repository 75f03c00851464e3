package clientgo

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weirproject/weir/apiserver"
)

// slim is a type that a transform makes of pods.
type slim struct {
	metav1.ObjectMeta
	Node string
}

// TestTransform puts the same transforms before client-go's informer and ours.
func TestTransform(t *testing.T) {
	transforms := map[string]func(any) (any, error){
		"same type": func(obj any) (any, error) {
			p := obj.(*corev1.Pod)
			p.Spec = corev1.PodSpec{}
			return p, nil
		},
		"another type": func(obj any) (any, error) {
			p := obj.(*corev1.Pod)
			return &slim{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, ResourceVersion: p.ResourceVersion, Labels: p.Labels}, Node: p.Spec.NodeName}, nil
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
		for maker, make := range both {
			t.Run(name+"/"+maker, func(t *testing.T) {
				s := newStage(t, make)
				if err := s.informer.SetTransform(transform); err != nil {
					t.Fatal(err)
				}
				s.source.Add(pod("a", "1"))
				s.start(t)
				if err := s.informer.SetTransform(transform); err == nil {
					t.Error("a transform was set after the start")
				}
				s.source.Modify(pod("a", "2"))
				s.source.Add(pod("b", "1"))
				s.told.wait(t, "add d/b@3 v=1")
				s.source.Delete(pod("a", "2"))
				s.told.waitCount(t, 4)
				held := s.informer.GetStore().List()
				s.stop()
				slices.Sort(s.told.lines)
				line := fmt.Sprintf("%s %T %s", s.told.sorted(), held[0], shown(held))
				if p, ok := held[0].(*corev1.Pod); ok {
					line += p.Kind + p.Spec.NodeName
				}
				if p, ok := held[0].(*slim); ok {
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

// Captured bytes are decoded for a transform, and encoded again after it.
func TestTransformCaptured(t *testing.T) {
	server := serve(t, apiserver.Options{Pods: 50})
	cfg := capturing(server.Config())
	cfg.ContentType = runtime.ContentTypeProtobuf
	inf := NewSharedIndexInformer(podsOf(cfg), &corev1.Pod{}, 0, nil).(*informer)
	calls := 0
	if err := inf.SetTransform(func(obj any) (any, error) {
		calls++
		p := obj.(*corev1.Pod)
		if calls == 7 {
			return nil, errors.New("not this one")
		}
		p.Spec.Tolerations[0].Key += "+" // in place: no other pod may have that slice
		p.ManagedFields, p.Spec, p.Status = nil, corev1.PodSpec{NodeName: "transformed", Tolerations: p.Spec.Tolerations}, corev1.PodStatus{}
		return p, nil
	}); err != nil {
		t.Fatal(err)
	}
	stop := run(t, inf)
	synced(t, inf.HasSyncedChecker())
	all := inf.GetStore().List()
	if len(all) != 49 {
		t.Errorf("%d pods, want all but one", len(all))
	}
	for _, obj := range all {
		if p := obj.(*corev1.Pod); p.Spec.NodeName != "transformed" || p.ManagedFields != nil || strings.Count(p.Spec.Tolerations[0].Key, "+") != 1 {
			t.Fatalf("not transformed: %v", p)
		}
	}
	if raw := inf.store.Memory().Raw; raw == 0 || raw > 49*1000 {
		t.Errorf("%d raw bytes", raw)
	}
	stop()
}
