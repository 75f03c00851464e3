package cluster

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/populations"
)

// TestKinds checks that kube-apiserver serves the objects of all kinds that were written into etcd.
func TestKinds(t *testing.T) {
	p, err := populations.New(podsim.Mixed, 40, 1)
	check.NoError(t, err)
	c := start(t, Options{Pods: p.Pods, Kinds: p.Kinds[1:]})
	client, err := dynamic.NewForConfig(c.Config())
	check.NoError(t, err)
	for k := range p.Kinds {
		kind := &p.Kinds[k]
		list, err := client.Resource(kind.GroupVersionResource).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Errorf("%s: %v", kind.Resource, err)
			continue
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
	}
}
