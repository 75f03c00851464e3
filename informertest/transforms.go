package informertest

import (
	"runtime"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/core/resourceversion"
)

var transforms = []Story{
	{Name: "Transform", Contract: "readers, indexes and handlers receive only transformed objects, also as old versions and final states",
		play: transform},
	{Name: "TransformOnRelist", Contract: "the objects of a relist are transformed, also unchanged ones", play: transformOnRelist},
	{Name: "TransformOnRestore", Contract: "after a server went back in time, its objects are stored transformed, also those whose version was already stored",
		play: transformOnRestore},
	{Name: "TransformFreesMemory", Contract: "fields that a transform drops do not remain in memory", play: transformFreesMemory},
}

// slim is a transform that drops large fields and adds a label. A second call for the same pod
// changes nothing; client-go transforms an object again in a resync.
func slim(p *corev1.Pod) {
	p.Annotations, p.Spec.Containers = nil, nil
	if p.Labels == nil {
		p.Labels = map[string]string{}
	}
	p.Labels["slim"] = "yes"
}

func bySlimNode(p *corev1.Pod) []string { return []string{p.Labels["slim"] + " " + p.Spec.NodeName} }

// slimCheck is a handler that reports a fault for each object that slim has not transformed. It
// stores the last version of each object, and the final state of deleted objects.
type slimCheck struct {
	s *storyRun

	mu       sync.Mutex
	versions map[string]*corev1.Pod
	deleted  map[string]*corev1.Pod
}

func (c *slimCheck) check(p *corev1.Pod) {
	if p.Labels["slim"] != "yes" || p.Spec.Containers != nil {
		c.s.errorf("a handler received %s/%s@%s untransformed", p.Namespace, p.Name, p.ResourceVersion)
	}
}

func (c *slimCheck) take(into map[string]*corev1.Pod, pods ...*corev1.Pod) {
	for _, p := range pods {
		c.check(p)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	last := pods[len(pods)-1]
	into[last.Namespace+"/"+last.Name] = last
}

func (c *slimCheck) handler() Handler {
	return Handler{
		Added:   func(p *corev1.Pod, _ bool) { c.take(c.versions, p) },
		Updated: func(old, p *corev1.Pod) { c.take(c.versions, old, p) },
		Deleted: func(p *corev1.Pod) { c.take(c.deleted, p) },
	}
}

// node returns the node of the last version of a pod that the handler received.
func (c *slimCheck) node(key string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.versions[key]; p != nil {
		return p.Spec.NodeName
	}
	return ""
}

// slimFollower returns an informer with the transform slim, a listener and a slimCheck. The
// informer has synced, and the listener has received all pods.
func (s *storyRun) slimFollower() (*storyInformer, *listener, *slimCheck) {
	inf := s.informer(Options{Transform: slim, Indexes: map[string]IndexFunc{"node": bySlimNode}})
	l := inf.listen(HandlerOptions{})
	c := &slimCheck{s: s, versions: map[string]*corev1.Pod{}, deleted: map[string]*corev1.Pod{}}
	inf.handle(c.handler(), HandlerOptions{})
	inf.synced()
	l.takeEvents()
	return inf, l, c
}

// expectSlim checks that the informer stores all of the server's pods, transformed.
func (i *storyInformer) expectSlim() {
	for key := range i.s.server.ResourceVersions() {
		p, ok := i.Get(key)
		if !ok {
			i.s.failf("%s is not stored", key)
		}
		if !i.isAsServed(p) {
			i.s.errorf("%s is stored as %+v, which is not the transformed object of the server", key, p)
		}
	}
}

// transform updates, creates and deletes pods. Reads, indexes and handlers must return transformed
// pods only.
func transform(s *storyRun) {
	s.fill(3)
	inf, l, c := s.slimFollower()
	s.server.Put(pod(nth(0), onNode("other")))
	s.server.Put(pod("ns/new"))
	s.server.DeleteAs(nth(1), func(p *corev1.Pod) { p.Labels["final"] = "yes" })
	inf.current(time.Second)
	inf.expectSlim()
	inf.expectIndex("node", "yes node-1", nth(2), "ns/new")
	inf.expectIndex("node", "yes other", nth(0))
	l.gets(3)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deleted[nth(1)] == nil {
		s.errorf("the second handler did not receive the deletion")
	}
}

// transformOnRelist makes the informer list again. It then changes a pod that the relist found
// unchanged. The old and the new version of this update must be transformed.
func transformOnRelist(s *storyRun) {
	s.fill(20)
	inf, l, c := s.slimFollower()
	s.server.BreakWatches()
	s.missed()
	l.getsMissed(2 * time.Minute)
	inf.expectSlim()
	s.server.Put(pod(nth(5), onNode("third")))
	inf.current(time.Second)
	inf.expectSlim()
	inf.expectIndex("node", "yes third", nth(5))
	s.eventually(time.Second, "the second handler receives the change", func() bool { return c.node(nth(5)) == "third" })
}

// transformOnRestore restores the server to an earlier state. Before the restore, the informer
// stores later versions of pods 0 to 2 than the backup contains. It stores the same versions of
// pods 3 to 5 as the backup. After the restore, pod 2 changes again: the new version has the
// resourceVersion that the informer already stores for pod 2, but other content. The server answers
// 410 to the informer's next WATCH, so that every implementation lists. The informer must then
// store and deliver the restored pods, transformed.
func transformOnRestore(s *storyRun) {
	s.fill(6)
	inf, l, c := s.slimFollower()
	var backup []*corev1.Pod
	for i := range 6 {
		backup = append(backup, s.server.Pod(nth(i)))
	}
	rv := resourceversion.Number(s.server.ResourceVersion())
	for i := range 3 {
		s.server.Put(pod(nth(i), onNode("later")))
	}
	inf.current(time.Second)
	l.takeEvents()
	l.mayGoBack()
	s.server.Answer(Watch, 1, Answer{Delay: 5 * time.Second, Status: Gone()})
	s.server.Restore(rv, backup...)
	s.server.Put(pod("ns/new"))
	s.server.Put(pod("ns/another"))
	s.server.Put(pod(nth(2), onNode("other")))
	inf.current(30 * time.Minute)
	s.settle()
	inf.expectSlim()
	inf.expectIndex("node", "yes other", nth(2))
	inf.expectIndex("node", "yes later")
	for key, node := range map[string]string{nth(1): "node-1", nth(2): "other", nth(5): "node-1"} {
		if got := c.node(key); got != node {
			s.errorf("the last version of %s that a handler received is on node %s, not on %s", key, got, node)
		}
	}
	s.server.Put(pod(nth(5), onNode("third")))
	inf.current(time.Second)
	inf.expectSlim()
}

// transformFreesMemory lists 100 pods of 50 KB with a transform that drops almost all content of
// each pod. At most a quarter of the pods' size may stay in memory.
func transformFreesMemory(s *storyRun) {
	const pods, size = 100, 50 * kB
	s.fill(pods, bulk(size))
	s.follow() // allocates the data that a process creates only once
	s.elapse(10 * time.Minute)
	inf := s.informer(Options{Transform: slim})
	inf.listen(HandlerOptions{}, forgetful)
	before := heap()
	inf.synced()
	inf.current(time.Minute)
	s.elapse(10 * time.Minute) // decoded objects become idle, and pools are emptied
	if grown := heap() - before; grown > pods*size/4 {
		s.failf("%d KB remain of %d pods of %d KB that the transform made small", grown/kB, pods, size/kB)
	}
	runtime.KeepAlive(inf)
}
