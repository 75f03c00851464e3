package informertest

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/testing/testenv"
)

var copies = []Story{
	{Name: "ForgottenCopy", Contract: "changing an object after reading it changes no other object", play: forgottenCopy},
	{Name: "ForgottenCopyOfOld", Contract: "changing a version that a handler received changes no other version", play: forgottenCopyOfOld},
}

// ofWorkload adds to a pod the content that all pods of a workload have in common. An informer may
// share such content between objects.
func ofWorkload(p *corev1.Pod) {
	probe := &corev1.Probe{PeriodSeconds: 10, TimeoutSeconds: 3, FailureThreshold: 5, ProbeHandler: corev1.ProbeHandler{
		Exec: &corev1.ExecAction{Command: []string{"/bin/check", "--all", "--within", "3s"}},
	}}
	amounts := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("1.5Gi"),
		"example.org/huge": resource.MustParse("123456789012345678901234567890"),
	}
	p.Annotations = map[string]string{"example.org/one": "a value of some length", "example.org/two": "another value of some length"}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "workload", UID: "1234", Controller: new(true)}}
	managed := new(metav1.FieldsV1) // v0.34 lacks metav1.NewFieldsV1
	_ = managed.UnmarshalJSON([]byte(`{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:nodeName":{}}}`))
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "test", Operation: "Update", APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: managed}}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		c.LivenessProbe, c.ReadinessProbe = probe, probe
		c.Env = []corev1.EnvVar{{Name: "ONE", Value: "a value of some length"}, {Name: "TWO", Value: "another value of some length"}}
		c.Resources = corev1.ResourceRequirements{Requests: amounts, Limits: amounts}
	}
	p.Spec.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(int64(300))}}
	p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(1000)), FSGroup: new(int64(1000)), SupplementalGroups: []int64{1, 2, 3}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, Reason: "AllContainersAreReady"}}
}

// isAsServed reports whether p equals the result of the informer's transform for the server's
// current version of the pod.
func (i *storyInformer) isAsServed(p *corev1.Pod) bool {
	served := i.s.server.Pod(p.Namespace + "/" + p.Name)
	return served != nil && sameContent(p, i.transformed(served))
}

// transformed returns a transformed copy of a pod, or the pod itself if the informer has no
// transform.
func (i *storyInformer) transformed(p *corev1.Pod) *corev1.Pod {
	if i.transform == nil {
		return p
	}
	p = p.DeepCopy()
	i.transform(p)
	return p
}

// sameContent reports whether two pods are equal, ignoring their TypeMeta.
func sameContent(a, b *corev1.Pod) bool {
	c := *a
	c.TypeMeta = b.TypeMeta
	return equality.Semantic.DeepEqual(&c, b)
}

// forgottenCopy acts like a program that forgets to copy: it reads all pods and overwrites every
// third pod that it has read. The other pods must not change, and later versions of all pods must
// equal the server's.
func forgottenCopy(s *storyRun) {
	const pods = 30
	s.fill(pods, ofWorkload)
	inf := s.informer(Options{})
	inf.synced()
	for round := range 3 {
		for i := range pods {
			p, ok := inf.Get(nth(i))
			switch {
			case !ok:
				s.failf("%s is not stored", nth(i))
			case i%3 == 0:
				testenv.ScribbleOver(p)
			case !inf.isAsServed(p):
				s.failf("round %d: %s has changed together with another object", round, nth(i))
			}
		}
		s.elapse(5 * time.Minute) // the informer may drop decoded objects in this time
	}
	for i := range pods {
		s.server.Put(pod(nth(i), ofWorkload, onNode("other")))
	}
	inf.current(time.Minute)
	for i := range pods {
		if p, ok := inf.Get(nth(i)); !ok || !inf.isAsServed(p) {
			s.failf("the new version of %s is not the server's", nth(i))
		}
	}
}

// forgottenCopyOfOld makes the handler overwrite the old version of each update. The new version
// must then equal the server's. In every second call the handler then also overwrites the new
// version.
func forgottenCopyOfOld(s *storyRun) {
	const pods, updates = 5, 8
	s.fill(pods, ofWorkload)
	inf := s.informer(Options{})
	var mu sync.Mutex
	calls := 0
	inf.handle(Handler{Updated: func(old, p *corev1.Pod) {
		mu.Lock()
		defer mu.Unlock()
		calls++
		testenv.ScribbleOver(old)
		if !inf.isAsServed(p) {
			s.errorf("call %d: the new version of %s has changed together with another version", calls, p.Name)
		}
		if calls%2 == 0 {
			testenv.ScribbleOver(p)
		}
	}}, HandlerOptions{})
	inf.synced()
	for i := range updates {
		for n := range pods {
			p := s.server.Pod(nth(n))
			p.Status.Message = nth(i)
			s.server.Put(p)
			s.elapse(time.Second)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if calls != pods*updates {
		s.failf("%d calls of %d", calls, pods*updates)
	}
}
