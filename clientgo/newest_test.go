//go:build !oldest

package clientgo

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/testing/check"
)

// This file is left out of builds with the oldest supported client-go, which lacks the functions
// that these tests call.

// shutDownHandler removes a handler and waits until its last call has returned.
var shutDownHandler = cache.ShutDownEventHandler

// named is the part of the interface of generated factories that the oldest client-go lacks.
type named interface{ InformerName() *cache.InformerName }

// TestTypedInformer checks that a factory's typed informer and untyped informer of a resource share
// their indexers: they are one informer.
func TestTypedInformer(t *testing.T) {
	pods := NewSharedInformerFactoryWithOptions(fake.NewClientset(), 0).Core().V1().Pods()
	check.NoError(t, pods.TypedInformer().AddTypedIndexers(coreinformers.PodIndexers{"probe": func(*corev1.Pod) ([]string, error) { return nil, nil }}))
	if _, ok := pods.Informer().GetIndexer().GetIndexers()["probe"]; !ok {
		t.Error("an index of the typed informer is missing in the other")
	}
}

// TestIssueTypedTombstone checks that a typed handler receives a tombstone for a missed deletion.
// In calico issues 12793 and 13663, and in meshsync issue 566, tombstones caused lost deletions or
// panics.
func TestIssueTypedTombstone(t *testing.T) {
	s := newRecordedInformer(t, NewSharedIndexInformer)
	deleted := make(chan coreinformers.DeletedPod, 1)
	typed := coreinformers.ToPodIndexInformer(s.informer)
	if _, err := typed.AddTypedEventHandler(coreinformers.PodHandlerFuncs{
		DeleteFunc: func(d coreinformers.DeletedPod) { deleted <- d },
	}); err != nil {
		t.Fatal(err)
	}
	s.source.Add(pod("a", "1"))
	s.start(t)
	s.source.DeleteDropWatch(pod("a", "1"))
	s.source.ResetWatch()
	if d := <-deleted; d.FinalStateUnknown == nil || d.FinalStateUnknown.Key != "d/a" || d.OptionalObj.Name != "a" {
		t.Errorf("deleted %v", d)
	}
}
