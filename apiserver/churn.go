package apiserver

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// churner changes simulated pods like kubelets and controllers in a real cluster. Only one
// goroutine may use it.
type churner struct {
	server *Server
	pods   *servedResource
	sim    *podsim.Pods
	rnd    *rand.Rand
	ids    *rand.ChaCha8 // source of the names and uids of new pods
	keys   []podKey      // of the existing pods
}

type podKey struct{ namespace, name string }

const (
	// churnTick is how often the churner wakes up to make the changes that are due. A shorter time
	// would make the rate more even, but would wake the process more often.
	churnTick = 10 * time.Millisecond
	// On average, one of replaceEvery changes replaces a pod. The other changes update a status.
	replaceEvery = 50
	// churnStream is the second seed of the churn's random numbers. It differs from the seeds of the
	// simulated pods, so that the churn does not repeat their random numbers.
	churnStream = 1 << 61
)

// startChurn starts the churner's goroutine if Options.Churn is positive. StopChurn and Close end
// the goroutine.
func (s *Server) startChurn(pods *servedResource, sim *podsim.Pods) {
	if s.opts.Churn <= 0 {
		return
	}
	c := &churner{server: s, pods: pods, sim: sim, rnd: rand.New(rand.NewPCG(s.opts.Seed, churnStream))}
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], s.opts.Seed)
	c.ids = rand.NewChaCha8(key)
	for o := range pods.storage.store.Snapshot().All() {
		c.keys = append(c.keys, podKey{o.Namespace(), o.Name()})
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.churn.Go(func() { c.run(ctx, s.opts.Churn) })
}

// StopChurn ends the churn permanently. It blocks until the change in progress is done.
func (s *Server) StopChurn() {
	s.stop()
	s.churn.Wait()
}

// run makes rate changes per second until ctx ends. If making the changes takes too long for this
// rate, at most the changes of one second are overdue, and run omits the others.
func (c *churner) run(ctx context.Context, rate float64) {
	tick := time.Tick(churnTick)
	last, owed := time.Now(), 0.0
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick:
			owed = min(owed+rate*now.Sub(last).Seconds(), max(rate, 1))
			last = now
		}
		for ; owed >= 1 && len(c.keys) > 0 && ctx.Err() == nil; owed-- {
			c.change()
		}
	}
}

// change makes one change. If another client has deleted the chosen pod, change removes the pod
// from c.keys.
func (c *churner) change() {
	i := c.rnd.IntN(len(c.keys))
	var err error
	if c.rnd.IntN(replaceEvery) == 0 {
		err = c.replace(i)
	} else {
		err = c.updateStatus(c.keys[i])
	}
	if apierrors.IsNotFound(err) {
		c.keys[i] = c.keys[len(c.keys)-1]
		c.keys = c.keys[:len(c.keys)-1]
	}
}

func (k podKey) status() request.Path {
	return request.Path{Version: "v1", Resource: "pods", Namespace: k.namespace, Name: k.name, Subresource: "status"}
}

func (c *churner) updateStatus(at podKey) error {
	_, err := c.server.update(c.pods, at.status(), false, func(o object) (object, error) {
		if pod, ok := o.(*corev1.Pod); ok {
			podsim.Touch(pod, c.rnd)
		}
		return o, nil
	})
	return err
}

// replace deletes a pod, creates another pod, and then sets the status of the new pod to running.
func (c *churner) replace(i int) error {
	old := c.keys[i]
	if _, _, err := c.server.remove(c.pods, request.Path{Version: "v1", Resource: "pods", Namespace: old.namespace, Name: old.name}, nil, false); err != nil {
		return err
	}
	pod := c.sim.Pod(c.rnd.IntN(c.sim.Len()))
	pod.Name, pod.UID, pod.ResourceVersion = "", "", ""
	running := pod.Status
	if _, err := c.server.insert(c.pods, pod, pod.Namespace, false, c.ids); err != nil {
		return err
	}
	c.keys[i] = podKey{pod.Namespace, pod.Name}
	_, err := c.server.update(c.pods, c.keys[i].status(), false, func(o object) (object, error) {
		if created, ok := o.(*corev1.Pod); ok {
			created.Status = running
		}
		return o, nil
	})
	return err
}
