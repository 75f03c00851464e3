package apiserver

import (
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/populations"
)

var (
	podsResource            = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	namespacesResource      = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	serviceAccountsResource = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
)

// systemNamespaces are the namespaces that every cluster has.
var systemNamespaces = []string{"default", "kube-node-lease", "kube-public", "kube-system"}

// seed creates the namespaces and the simulated objects, and starts the churn of the simulated
// pods.
func (s *Server) seed() error {
	sim, err := populations.New(s.opts.Population, s.opts.Pods, s.opts.Seed)
	if err != nil {
		return fmt.Errorf("apiserver: %w", err)
	}
	namespaces, _ := s.registry.find(namespacesResource)
	for _, name := range append(sim.Pods.Namespaces(), systemNamespaces...) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}}}
		if _, err := s.insert(namespaces, ns, "", false, rand.Reader); err != nil {
			return err
		}
	}
	if sim.Pods.Len() == 0 {
		return nil
	}
	for i := range sim.Kinds {
		kind := &sim.Kinds[i]
		res, ok := s.registry.find(kind.GroupVersionResource)
		if !ok {
			return fmt.Errorf("apiserver: no resource has the name %v", kind.GroupVersionResource)
		}
		if err := res.seed(kind); err != nil {
			return fmt.Errorf("apiserver: a simulated %s: %w", kind.Kind, err)
		}
		for i := 0; res.definesResources() && i < kind.Len; i++ {
			if err := s.afterWrite(res, kind.Object(i)); err != nil {
				return fmt.Errorf("apiserver: a simulated %s: %w", kind.Kind, err)
			}
		}
	}
	pods, _ := s.registry.find(podsResource)
	s.startChurn(pods, sim.Pods)
	return nil
}

// seedChunk is the number of objects that seed encodes before it stores them.
const seedChunk = 512

// seed stores all objects, each with a separate resourceVersion. The history starts after the last
// object, so no client can resume from a resourceVersion of an earlier object.
func (res *servedResource) seed(sim *populations.Kind) error {
	st := res.storage
	st.mu.Lock()
	defer st.mu.Unlock()
	n := uint64(sim.Len)
	return st.clock.advanceBy(n, func(last uint64) error {
		st.writer.BeginReplace(false)
		var chunk [seedChunk][]byte
		for from := 0; from < sim.Len; from += seedChunk {
			made := chunk[:min(seedChunk, sim.Len-from)]
			if err := res.makeObjects(made, sim, from, last-n+1); err != nil {
				return err
			}
			for _, raw := range made {
				if err := wire.ReadMeta(st.encoding, raw, &st.meta); err != nil {
					return err
				}
				if err := st.writer.Put(&st.meta, raw); err != nil {
					return err
				}
			}
		}
		st.writer.EndReplace(resourceversion.Format(last))
		st.history.Reset(last, st.store.Revision())
		return nil
	})
}

// makeObjects encodes the objects from, from+1 and so on into out, on all processors. Object i gets
// resourceVersion first+i.
func (res *servedResource) makeObjects(out [][]byte, sim *populations.Kind, from int, first uint64) error {
	workers := runtime.GOMAXPROCS(0)
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for i := worker; i < len(out); i += workers {
				o := sim.Object(from + i)
				o.SetResourceVersion(resourceversion.Format(first + uint64(from+i)))
				if out[i], errs[worker] = res.marshal(o); errs[worker] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
