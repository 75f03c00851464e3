package apiserver_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/populations"
)

// TestPopulations checks that a watch continues while the churn changes and replaces pods. It tries
// every population.
func TestPopulations(t *testing.T) {
	for _, name := range podsim.Populations() {
		t.Run(name, func(t *testing.T) {
			s, err := apiserver.New(apiserver.Options{Pods: 30, Population: name, Seed: 4, Churn: 500})
			check.NoError(t, err)
			defer s.Close()
			check.NoError(t, s.Start())
			client, err := kubernetes.NewForConfig(s.Config())
			check.NoError(t, err)
			w, err := client.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
			check.NoError(t, err)
			defer w.Stop()
			for range 200 { // some of these changes replace a pod
				if _, ok := <-w.ResultChan(); !ok {
					t.Fatal("the watch ended")
				}
			}
			s.StopChurn()
			list, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
			check.NoError(t, err)
			if len(list.Items) != 30 {
				t.Errorf("%d pods, want 30: those that went were not replaced", len(list.Items))
			}
		})
	}
}

// TestServesEveryKind checks that the server serves the population's objects of each kind, and the
// custom resources that the population defines.
func TestServesEveryKind(t *testing.T) {
	const pods, seed = 60, 3
	s, err := apiserver.New(apiserver.Options{Pods: pods, Population: podsim.Mixed, Seed: seed})
	check.NoError(t, err)
	defer s.Close()
	check.NoError(t, s.Start())
	client, err := dynamic.NewForConfig(s.Config())
	check.NoError(t, err)
	want, err := populations.New(podsim.Mixed, pods, seed)
	check.NoError(t, err)
	for k := range want.Kinds {
		kind := &want.Kinds[k]
		list, err := client.Resource(kind.GroupVersionResource).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatalf("%s: %v", kind.Resource, err)
		}
		uids := map[types.UID]bool{}
		for i := range list.Items {
			uids[list.Items[i].GetUID()] = true
		}
		for i := range kind.Len {
			if o := kind.Object(i); !uids[o.GetUID()] {
				t.Errorf("no %s is %s/%s", kind.Kind, o.GetNamespace(), o.GetName())
			}
		}
		if len(list.Items) != kind.Len {
			t.Errorf("%d %s, want %d", len(list.Items), kind.Resource, kind.Len)
		}
		if kind.Kind == "CustomResourceDefinition" {
			plural, _, _ := unstructured.NestedString(list.Items[0].Object, "spec", "names", "plural")
			group, _, _ := unstructured.NestedString(list.Items[0].Object, "spec", "group")
			gvr := schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}
			if _, err := client.Resource(gvr).List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Errorf("%v: %v", gvr, err)
			}
		}
	}
}

func TestUnknownPopulation(t *testing.T) {
	_, err := apiserver.New(apiserver.Options{Pods: 1, Population: "alien"})
	if err == nil || !strings.Contains(err.Error(), podsim.PopulationChoices()) {
		t.Errorf("%v: want an error that has the choices", err)
	}
}
