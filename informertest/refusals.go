package informertest

import (
	"context"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var refusals = []Story{
	{Name: "ForbiddenIsAnError", Contract: "an informer that may not list has an error within ten seconds",
		Issue: "controller-runtime 1653, kubeswift 460", play: forbiddenIsAnError},
	{Name: "ForbiddenIsNoTimeout", Contract: "WaitForSync of an informer that may not list returns this reason, and not a timeout",
		Issue: "controller-runtime 1653, kubeswift 460", play: forbiddenIsNoTimeout},
	{Name: "ForbiddenThenGranted", Contract: "after the permission to list was granted, the informer syncs within 90 s", play: forbiddenThenGranted},
	{Name: "ErrorEnds", Contract: "after the informer is current, it has no error", Issue: "controller-runtime 1653", play: errorEnds},
	{Name: "ForbiddenLater", Contract: "an informer that lost the permission to watch has an error, keeps its objects, and catches up after the permission returns",
		play: forbiddenLater},
	{Name: "UnknownResource", Contract: "the informer waits for a resource that the server does not serve yet", play: unknownResource},
	{Name: "Unauthorized", Contract: "refused credentials are an error that says so, and the informer retries", play: unauthorized},
	{Name: "RefusedWithPatience", Contract: "the informer sends few requests to a server that refuses them", play: refusedWithPatience},
	{Name: "TooManyRequests", Contract: "the informer waits for the time in Retry-After", play: tooManyRequests},
	{Name: "TooLargeVersion", Contract: "the informer waits for a server that lags behind", play: tooLargeVersion},
	{Name: "InternalErrors", Contract: "the informer recovers from errors of the server, in responses and in the stream", play: internalErrors},
}

// refuse makes the server answer every LIST and WATCH with status.
func (s *storyRun) refuse(status *metav1.Status) {
	s.answer(Always, Answer{Status: status})
}

// forbiddenIsAnError makes the server answer 403 from the start. Within ten seconds, Err must
// return an error that names the cause, and the informer must not have synced.
func forbiddenIsAnError(s *storyRun) {
	s.refuse(Forbidden())
	inf, _ := s.started(Options{})
	s.eventually(10*time.Second, "an error that says forbidden", func() bool { return names(inf.Err(), apierrors.IsForbidden, "forbidden") })
	if inf.HasSynced() {
		s.failf("it has synced without permission")
	}
}

// names reports whether is(err) is true, or the message of err contains word. It returns false if
// err is nil.
func names(err error, is func(error) bool, word string) bool {
	return err != nil && (is(err) || strings.Contains(strings.ToLower(err.Error()), word))
}

// forbiddenIsNoTimeout makes the server answer 403 and waits up to a minute for the sync. The error
// of the wait must name the cause.
func forbiddenIsNoTimeout(s *storyRun) {
	s.refuse(Forbidden())
	inf, _ := s.started(Options{})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := inf.WaitForSync(ctx)
	if !names(err, apierrors.IsForbidden, "forbidden") {
		s.failf("the wait says %v", err)
	}
}

// forbiddenThenGranted makes the server answer 403 for five minutes. The informer must sync within
// 90 s after that.
func forbiddenThenGranted(s *storyRun) {
	s.fill(5)
	s.refuse(Forbidden())
	_, l := s.started(Options{})
	s.elapse(5 * time.Minute)
	s.server.Normal()
	l.syncs(90 * time.Second)
}

// errorEnds refuses access until Err returns an error, and then grants it. The informer must sync,
// and Err must return nil again.
func errorEnds(s *storyRun) {
	s.fill(5)
	s.refuse(Forbidden())
	inf, _ := s.started(Options{})
	s.eventually(10*time.Second, "an error", func() bool { return inf.Err() != nil })
	s.server.Normal()
	s.eventually(90*time.Second, "HasSynced", inf.HasSynced)
	s.eventually(10*time.Second, "no error any more", func() bool { return inf.Err() == nil })
}

// forbiddenLater makes the server answer 403 for ten minutes after the sync. Err must name the
// cause, and the informer must keep its pods. At the end of the ten minutes, changes are made and
// dropped from the server's history, so that the informer can receive them only in a list. It must
// receive them within 90 s.
func forbiddenLater(s *storyRun) {
	inf, l := s.follower(5)
	s.refuse(Forbidden())
	s.server.EndWatches()
	s.eventually(time.Minute, "an error that says forbidden", func() bool { return names(inf.Err(), apierrors.IsForbidden, "forbidden") })
	s.elapse(10 * time.Minute)
	l.getsOnly(0)
	if n := len(inf.ResourceVersions()); n != 5 || !inf.HasSynced() {
		s.errorf("%d of 5 pods are stored, HasSynced is %v", n, inf.HasSynced())
	}
	s.missed()
	s.server.Normal()
	l.getsMissed(90 * time.Second)
}

// unknownResource makes the server answer 404 for the first five minutes. Err must name the cause,
// and the informer must sync within 90 s after that.
func unknownResource(s *storyRun) {
	s.refusedFor(5*time.Minute, NotFound(), apierrors.IsNotFound, "could not find")
}

// refusedFor makes the server answer status for the given time. Err must return an error that
// names(err, is, word) accepts. The informer must sync within 90 s after the given time.
func (s *storyRun) refusedFor(d time.Duration, status *metav1.Status, is func(error) bool, word string) {
	s.fill(5)
	s.refuse(status)
	inf, l := s.started(Options{})
	s.eventually(10*time.Second, "an error that says so", func() bool { return names(inf.Err(), is, word) })
	s.elapse(d)
	s.server.Normal()
	l.syncs(90 * time.Second)
}

// unauthorized makes the server answer 401 for a minute. Err must name the cause, and the informer
// must sync within 90 s after that.
func unauthorized(s *storyRun) {
	s.refusedFor(time.Minute, Unauthorized(), apierrors.IsUnauthorized, "unauthorized")
}

// refusedWithPatience makes the server answer 403 for half an hour. The informer must send at most
// 600 requests in that time.
func refusedWithPatience(s *storyRun) {
	s.refuse(Forbidden())
	s.started(Options{})
	s.elapse(30 * time.Minute)
	if n := len(s.server.Requests()); n > 600 {
		s.failf("%d requests in half an hour", n)
	}
}

// tooManyRequests makes the server answer 429 to two LISTs and two WATCHes. After each 429, the
// informer must send no request of the same operation before the time in Retry-After has passed.
func tooManyRequests(s *storyRun) {
	const patience = 7 * time.Second
	s.fill(5)
	s.answer(2, Answer{Status: TooManyRequests(patience)})
	s.syncsWithin(3 * time.Minute)
	refused := map[Op]int{}
	last := map[Op]time.Time{}
	for _, r := range s.server.Requests() {
		if r.Op != List && r.Op != Watch {
			continue
		}
		if n := refused[r.Op]; n > 0 && n <= 2 && r.At.Sub(last[r.Op]) < patience {
			s.errorf("%s again %v after a refusal that asked for %v", r.Op, r.At.Sub(last[r.Op]), patience)
		}
		refused[r.Op]++
		last[r.Op] = r.At
	}
}

// tooLargeVersion ends the watch with 410. The server then answers three LISTs, and the streams of
// three WATCHes, with the error that it has not reached the requested resourceVersion. Within three
// minutes, the informer must receive the changes that the watch has missed.
func tooLargeVersion(s *storyRun) {
	_, l := s.follower(5)
	s.server.Answer(List, 3, Answer{Status: TooLarge()})
	s.server.Answer(Watch, 3, Answer{Status: TooLarge(), InStream: true})
	s.server.FailWatches(Gone())
	s.missed()
	l.getsMissed(3 * time.Minute)
}

// internalErrors makes the server answer five LISTs and five WATCHes with 500. The informer must
// sync within five minutes. Later the server sends a 500 in the stream of the watch. The informer
// must receive later changes within two minutes.
func internalErrors(s *storyRun) {
	s.fill(5)
	s.answer(5, Answer{Status: Internal()})
	_, l := s.started(Options{})
	l.syncs(5 * time.Minute)
	l.takeEvents()
	s.server.FailWatches(Internal())
	s.change()
	l.getsMissed(2 * time.Minute)
}
