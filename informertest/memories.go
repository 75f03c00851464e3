package informertest

import (
	"encoding/base64"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

var memories = []Story{
	{Name: "PinnedArray", Contract: "keeping one object keeps no other object of its list in memory", Issue: "kubernetes 111370",
		play: pinnedArray},
	{Name: "BlockedHandlerIsBounded", Contract: "the memory of changes that wait for a blocked handler is bounded for any number of changes",
		Issue: "client-go 1326", play: blockedHandlerIsBounded},
	{Name: "RelistStoresNothingTwice", Contract: "a relist does not store objects twice while it arrives",
		Issue: "client-go 1377, kubernetes 129467, 73497", play: relistStoresNothingTwice},
	{Name: "StopFreesEverything", Contract: "an informer that has stopped and is unreferenced frees its memory", play: stopFreesEverything},
}

// bulk returns a function that adds an annotation to a pod. The annotation has about the given
// number of bytes, which do not compress.
func bulk(bytes int) func(*corev1.Pod) {
	random := rand.NewChaCha8([32]byte{1})
	return func(p *corev1.Pod) {
		b := make([]byte, bytes*3/4)
		// ChaCha8's Read never fails.
		_, _ = random.Read(b)
		p.Annotations = map[string]string{"bulk": base64.StdEncoding.EncodeToString(b)}
	}
}

const (
	kB = 1 << 10
	mB = 1 << 20
)

// pinnedArray lists 500 pods of 10 KB in one LIST and deletes all except five, which are spread
// evenly over the list. At most a quarter of the list's size may stay in memory.
func pinnedArray(s *storyRun) {
	const pods, keep, size = 500, 5, 10 * kB
	inf := s.informer(Options{})
	inf.listen(HandlerOptions{}, forgetful)
	before := heap()
	s.fill(pods, bulk(size))
	inf.synced()
	inf.current(time.Minute)
	for i := range pods {
		if i%(pods/keep) != 0 {
			s.server.Delete(nth(i))
		}
	}
	s.server.Compact()
	inf.current(time.Minute)
	s.elapse(10 * time.Minute) // the informer may drop decoded objects, and pools are emptied
	if left := heap() - before; left > pods*size/4 {
		s.failf("%d KB remain for %d pods of %d KB, of a list of %d MB", left/kB, keep, size/kB, pods*size/mB)
	}
	runtime.KeepAlive(inf)
}

// blockedHandlerIsBounded makes 1400 updates to 10 pods of 10 KB, 14 MB in total, while the handler
// is blocked in a call. The heap may grow by at most 12 MB.
func blockedHandlerIsBounded(s *storyRun) {
	const pods, updates, size = 10, 1400, 10 * kB
	s.fill(pods, bulk(size))
	inf, slow := s.synced(Options{}, forgetful)
	slow.hold()
	before := heap()
	fat := bulk(size)
	for i := range updates {
		s.server.Put(pod(nth(i%pods), fat))
		if i%100 == 99 {
			s.settle()
			s.server.Compact()
		}
	}
	s.eventually(time.Minute, "reading the changes while the handler is blocked", func() bool {
		return inf.ResourceVersions()[nth(0)] == s.server.ResourceVersions()[nth(0)]
	})
	grown := heap() - before
	slow.letGo()
	inf.current(time.Minute)
	if grown > 12*mB {
		s.failf("the memory has grown by %d MB after %d MB of updates", grown/mB, updates*size/mB)
	}
}

// relistStoresNothingTwice makes an informer of 500 pods of 10 KB list again. While the server
// delays the end of the list, the heap may have grown by at most a quarter of the list's size.
func relistStoresNothingTwice(s *storyRun) {
	const pods, size = 500, 10 * kB
	s.fill(pods, bulk(size))
	inf, _ := s.synced(Options{}, forgetful)
	s.elapse(10 * time.Minute)
	hold := make(chan struct{})
	before := heap()
	s.server.Advance(1)
	s.server.Compact()
	s.server.ForgetRequests()
	s.server.Answer(List, 1, Answer{Hold: hold})
	s.server.FailWatches(Gone())
	// Hold affects only initial events, so the informer can resume with a WATCH. That WATCH receives
	// 410. The informer then lists again, and the server delays the end of that list.
	s.server.Answer(Watch, Always, Answer{Hold: hold})
	s.eventually(time.Minute, "a relist", func() bool {
		return slices.ContainsFunc(s.server.Requests(), func(r Request) bool {
			return r.Op == List && r.Query.Get("limit") != "1" || r.Query.Get("sendInitialEvents") == "true"
		})
	})
	s.elapse(time.Second)
	grown := heap() - before
	close(hold)
	s.server.Put(pod("ns/new"))
	inf.current(2 * time.Minute)
	if grown > pods*size/4 {
		s.failf("the memory has grown by %d MB while %d MB of stored objects arrive again", grown/mB, pods*size/mB)
	}
}

// stopFreesEverything starts and stops three informers of 500 pods of 10 KB, one after another. At
// most a tenth of the total size of the objects of all three informers may then stay in memory.
func stopFreesEverything(s *storyRun) {
	const informers, pods, size = 3, 500, 10 * kB
	s.fill(pods, bulk(size))
	s.follow() // allocates data that is created once per process
	before := heap()
	for range informers {
		s.follow()
	}
	if left := heap() - before; left > informers*pods*size/10 {
		s.failf("%d KB are left of %d informers of %d KB", left/kB, informers, pods*size/kB)
	}
}

// follow runs an informer until it has synced, stops it and removes the story's reference to it.
func (s *storyRun) follow() {
	inf, _ := s.synced(Options{}, forgetful)
	inf.current(time.Minute)
	inf.stop()
	s.informers = s.informers[:len(s.informers)-1]
}
