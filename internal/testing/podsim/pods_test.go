package podsim

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirproject/weir/internal/testing/check"
)

const full = 50_000

func TestConcurrentUse(t *testing.T) {
	for _, make := range []func(int, uint64) *Pods{New, NewUnlike, NewRandom} {
		p := make(200, 1)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for i := range p.Len() {
					p.Pod(i)
				}
			})
		}
		wg.Wait()
	}
}

func TestSizes(t *testing.T) {
	p := New(full, 1)
	const step = 25
	var protobuf, indented, n float64
	for i := 0; i < full; i += step {
		pod := p.Pod(i)
		protobuf += float64(pod.Size())
		// A real server indents the JSON that it sends to browsers and to curl. For a LIST of all these
		// pods, curl received 813 MB.
		j, err := json.MarshalIndent(pod, "    ", "  ")
		check.NoError(t, err)
		indented += float64(len(j))
		n++
	}
	if mean := protobuf / n; mean < 4_700 || mean > 5_200 {
		t.Errorf("a pod has %.0f bytes as protobuf, want 4,700 to 5,200", mean)
	}
	if total := indented / n * full / 1e6; total < 0.9*813 || total > 1.1*813 {
		t.Errorf("%d pods have %.0f MB as JSON, want 813 within 10 %%", full, total)
	}
}

func TestCounts(t *testing.T) {
	for _, want := range []struct{ n, namespaces, apps, nodes int }{
		{full, 200, 2_500, 5_000},
		{500, 2, 25, 50},
		{7, 1, 1, 1},
		{0, 0, 0, 0},
	} {
		p := New(want.n, 3)
		uids := map[types.UID]bool{}
		keys, ips := map[string]bool{}, map[string]bool{}
		namespaces, apps, nodes := map[string]int{}, map[string]int{}, map[string]int{}
		for i := range p.Len() {
			pod := p.podWithoutFields(i)
			uids[pod.UID] = true
			keys[pod.Namespace+"/"+pod.Name] = true
			ips[pod.Status.PodIP] = true
			namespaces[pod.Namespace]++
			apps[pod.Labels["app"]]++
			nodes[pod.Spec.NodeName]++
		}
		if len(uids) != want.n || len(keys) != want.n || len(ips) != want.n {
			t.Errorf("%d pods have %d uids, %d keys and %d addresses", want.n, len(uids), len(keys), len(ips))
		}
		if len(namespaces) != want.namespaces || len(apps) != want.apps || len(nodes) != want.nodes {
			t.Errorf("%d pods are in %d namespaces, %d apps, on %d nodes, want %+v", want.n, len(namespaces), len(apps), len(nodes), want)
		}
		for _, listed := range []struct {
			names []string
			seen  map[string]int
		}{{p.Namespaces(), namespaces}, {p.Apps(), apps}, {p.Nodes(), nodes}} {
			if len(listed.names) != len(listed.seen) {
				t.Errorf("%d names listed, %d seen", len(listed.names), len(listed.seen))
			}
			for _, name := range listed.names {
				if listed.seen[name] == 0 {
					t.Errorf("%s is listed but has no pods", name)
				}
			}
		}
		if want.n == full {
			for app, n := range apps {
				check.Equal(t, n, 20, "app %s has replicas", app)
			}
		}
	}
}

func TestShape(t *testing.T) {
	p := New(full, 2)
	if !slices.IsSorted(p.Namespaces()) {
		t.Error("namespaces are not sorted")
	}
	for _, i := range []int{0, 777, full - 1} {
		pod := p.Pod(i)
		check.Equal(t, len(pod.Labels), 5, "labels")
		check.Equal(t, len(pod.Annotations), 3, "annotations")
		if len(pod.OwnerReferences) != 1 || len(pod.Spec.Volumes) != 2 || len(pod.Spec.Tolerations) == 0 {
			t.Errorf("pod %d lacks an owner, volumes or tolerations", i)
		}
		if len(pod.Spec.Containers) != 2 || len(pod.Status.ContainerStatuses) != 2 {
			t.Fatalf("pod %d has not two containers", i)
		}
		for _, c := range pod.Spec.Containers {
			if len(c.Env) != 5 || c.LivenessProbe == nil || c.ReadinessProbe == nil || len(c.Ports) == 0 ||
				len(c.VolumeMounts) != 2 || len(c.Resources.Limits) != 2 {
				t.Errorf("container %s is not full", c.Name)
			}
		}
		if len(pod.ManagedFields) != 2 {
			t.Fatalf("%d managers, want 2", len(pod.ManagedFields))
		}
		validPod(t, pod)
	}
}

func TestTouch(t *testing.T) {
	p := New(40, 5)
	before := p.Pod(11)
	shallow := *before
	rnd, again := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(1, 2))
	other := p.Pod(11)
	for range 50 {
		last := shallow.DeepCopy()
		Touch(&shallow, rnd)
		Touch(other, again)
		if !equality.Semantic.DeepEqual(&shallow, other) {
			t.Fatal("the same random numbers give another change")
		}
		if equality.Semantic.DeepEqual(last.Status, shallow.Status) {
			t.Fatal("the status did not change")
		}
		if !lastUpdate(last).Before(lastUpdate(&shallow)) {
			t.Fatal("the update is not later than the one before")
		}
		if !equality.Semantic.DeepEqual(last.Spec, shallow.Spec) || last.UID != shallow.UID {
			t.Fatal("more than the status changed")
		}
	}
	if !equality.Semantic.DeepEqual(before, p.Pod(11)) {
		t.Error("touching a shallow copy changed the pod it was copied from")
	}
	Touch(&corev1.Pod{}, rnd)
}

func BenchmarkPod(b *testing.B) {
	p := New(full, 1)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p.Pod(i % full)
	}
}
