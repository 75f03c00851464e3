package apiserver

import (
	"fmt"
	"runtime"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/podsim"
	"github.com/weirproject/weir/internal/resourceversion"
	"github.com/weirproject/weir/internal/wire"
)

var (
	podsResource       = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	namespacesResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// systemNamespaces exist in every cluster.
var systemNamespaces = []string{"default", "kube-node-lease", "kube-public", "kube-system"}

// seed creates the namespaces and the simulated pods, and starts the churn.
func (s *Server) seed() error {
	sim := podsim.New(s.opts.Pods, s.opts.Seed)
	namespaces, _ := s.registry.find(namespacesResource)
	for _, name := range append(sim.Namespaces(), systemNamespaces...) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}}}
		if _, err := s.insert(namespaces, ns, "", false); err != nil {
			return err
		}
	}
	if sim.Len() == 0 {
		return nil
	}
	pods, _ := s.registry.find(podsResource)
	if err := pods.storage.seed(sim); err != nil {
		return err
	}
	s.startChurn(pods, sim)
	return nil
}

// seedChunk is how many pods are created before they are stored.
const seedChunk = 512

// seed stores all pods, each with a resourceVersion of its own, before the history begins.
func (st *storage) seed(sim *podsim.Pods) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	n := uint64(sim.Len())
	return st.clock.advanceBy(n, func(last uint64) error {
		st.writer.BeginReplace(false)
		var chunk [seedChunk][]byte
		for from := 0; from < sim.Len(); from += seedChunk {
			made := chunk[:min(seedChunk, sim.Len()-from)]
			if err := makePods(made, sim, from, last-n+1); err != nil {
				return err
			}
			for _, raw := range made {
				if err := wire.ReadMeta(st.encoding, raw, &st.meta); err != nil {
					return fmt.Errorf("apiserver: a simulated pod: %w", err)
				}
				if err := st.writer.Put(&st.meta, raw); err != nil {
					return fmt.Errorf("apiserver: a simulated pod: %w", err)
				}
			}
		}
		st.writer.EndReplace(resourceversion.Format(last))
		st.history.Reset(last, st.store.Revision())
		return nil
	})
}

// makePods encodes the pods from, from+1, … on all processors. Pod i gets resourceVersion first+i.
func makePods(out [][]byte, sim *podsim.Pods, from int, first uint64) error {
	workers := runtime.GOMAXPROCS(0)
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for i := worker; i < len(out); i += workers {
				pod := sim.Pod(from + i)
				pod.ResourceVersion = resourceversion.Format(first + uint64(from+i))
				if out[i], errs[worker] = pod.Marshal(); errs[worker] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("apiserver: a simulated pod: %w", err)
		}
	}
	return nil
}
