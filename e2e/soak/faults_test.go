package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// faults causes faults of the servers and of a CustomResourceDefinition, one after the other.
type faults struct {
	w      *world
	rand   *rand.Rand
	client dynamic.Interface // connects over the steady line
	undone sync.WaitGroup    // waits for the restart or resumption of servers

	mu    sync.Mutex
	busy  map[*cluster.APIServer]bool
	kills int
}

// maxKills bounds the kills in a round. A restarting API server occupies a CPU core for seconds.
// The informers cannot use this core meanwhile.
const maxKills = 2

func (w *world) newFaults(round int, client dynamic.Interface) *faults {
	return &faults{
		w: w, rand: rand.New(rand.NewPCG(w.seed, uint64(round)<<32)), client: client, busy: map[*cluster.APIServer]bool{},
	}
}

// between returns a random duration d with least ≤ d < most.
func (f *faults) between(least, most time.Duration) time.Duration {
	return least + time.Duration(f.rand.Int64N(int64(most-least)))
}

// run makes the line bad, and causes faults until the time is over. It then waits until all servers
// serve and the definition of widgets is restored, and makes the line good.
func (f *faults) run(ctx context.Context, length time.Duration) {
	f.w.note("the line is bad")
	f.w.line.set(true)
	end := time.After(length)
	for on := true; on; {
		select {
		case <-time.After(f.between(500*time.Millisecond, 4*time.Second)):
			f.one(ctx)
		case <-end:
			on = false
		case <-ctx.Done():
			on = false
		}
	}
	f.undone.Wait()
	testenv.EventuallyNoError(f.w.t, ctx, "the definition of widgets is as in the beginning", func() error {
		return f.w.redefine(ctx, f.client, definition{served: true, colour: "red"})
	})
	f.w.widgetsServed(ctx)
	f.w.line.set(false)
	f.w.note("the line is good, and all servers run")
}

func (f *faults) one(ctx context.Context) {
	server := f.rand.IntN(len(f.w.servers))
	switch what := f.rand.IntN(10); {
	case what < 3:
		f.kill(ctx, server, f.between(100*time.Millisecond, 3*time.Second))
	case what < 6:
		f.pause(ctx, server, f.between(time.Second, 6*time.Second))
	case what < 8:
		revision, err := f.w.cluster.Compact(ctx)
		f.w.note("etcd is compacted at %d: %v", revision, err)
	default:
		d := randomDefinition(f.rand)
		short, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		f.w.note("widgets are defined as %+v: %v", d, f.w.redefine(short, f.client, d))
	}
}

// take marks a server as having a fault. It returns false if the server already has one.
func (f *faults) take(s *cluster.APIServer) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy[s] {
		return false
	}
	f.busy[s] = true
	return true
}

func (f *faults) give(s *cluster.APIServer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy[s] = false
}

func (f *faults) kill(ctx context.Context, server int, down time.Duration) {
	s := f.w.servers[server]
	if f.kills >= maxKills || !f.take(s) {
		return
	}
	f.kills++
	s.Kill()
	f.w.note("server %d is killed", server+1)
	f.undone.Go(func() {
		defer f.give(s)
		sleep(ctx, down)
		if err := s.Start(ctx); err != nil {
			f.w.t.Error(fmt.Errorf("server %d: %w", server+1, err))
			return
		}
		f.w.note("server %d runs again", server+1)
	})
}

func (f *faults) pause(ctx context.Context, server int, length time.Duration) {
	s := f.w.servers[server]
	if !f.take(s) {
		return
	}
	s.Pause()
	f.w.note("server %d is paused", server+1)
	f.undone.Go(func() {
		defer f.give(s)
		sleep(ctx, length)
		s.Resume()
		f.w.note("server %d goes on", server+1)
	})
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

const (
	// writers is the number of goroutines that write. Each has its own object names.
	writers = 3
	// keysPerNamespace is the maximum number of objects of each kind in a namespace.
	keysPerNamespace = 40
	// writePause is the time between two writes of a writer.
	writePause = 15 * time.Millisecond
	// writeTimeout bounds one write, because a server may be paused.
	writeTimeout = 2 * time.Second
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// churn writes objects until stop: it creates, changes and deletes them. It also changes labels, so
// that objects start or stop matching a selector.
type churn struct {
	clients []dynamic.Interface // one for each API server
	written atomic.Uint64       // number of writes that a server confirmed
	number  atomic.Uint64       // number of the last write that was sent
	seed    uint64

	runs   uint64
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func (w *world) newChurn() *churn {
	c := &churn{seed: w.seed}
	for _, s := range w.servers {
		c.clients = append(c.clients, w.dynamic(s.Config()))
	}
	return c
}

// start starts the writers.
func (c *churn) start(ctx context.Context) {
	ctx, c.cancel = context.WithCancel(ctx)
	c.runs++
	for i := range writers {
		r := rand.New(rand.NewPCG(c.seed, c.runs<<8|uint64(i)))
		c.wg.Go(func() { c.write(ctx, r, i) })
	}
}

// stop stops the writers, and waits for the writes in progress.
func (c *churn) stop() {
	c.cancel()
	c.wg.Wait()
}

// write runs one writer. After a failed request, the writer continues with the other server.
func (c *churn) write(ctx context.Context, r *rand.Rand, writer int) {
	pause := time.NewTicker(writePause)
	defer pause.Stop()
	server := writer % len(c.clients)
	for {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
		// Do not use ctx: a write in progress must finish after stop.
		one, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
		err := c.one(one, c.clients[server], r, writer)
		cancel()
		switch {
		case err == nil:
			c.written.Add(1)
		case !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err):
			server = (server + 1) % len(c.clients)
		}
	}
}

func (c *churn) one(ctx context.Context, client dynamic.Interface, r *rand.Rand, writer int) error {
	gvr := configMaps
	if r.IntN(4) == 0 {
		gvr = writtenWidgets
	}
	name := fmt.Sprintf("o%d", r.IntN(keysPerNamespace/writers)*writers+writer)
	api := client.Resource(gvr).Namespace(namespaces[r.IntN(len(namespaces))])
	if r.IntN(8) == 0 {
		err := api.Delete(ctx, name, metav1.DeleteOptions{})
		if !apierrors.IsNotFound(err) || r.IntN(2) == 0 {
			return err
		}
	}
	o := c.object(gvr, name, r)
	patch, err := json.Marshal(o.Object)
	if err != nil {
		return err
	}
	if _, err = api.Patch(ctx, name, mergePatch, patch, metav1.PatchOptions{}); !apierrors.IsNotFound(err) {
		return err
	}
	_, err = api.Create(ctx, o, metav1.CreateOptions{})
	return err
}

// object returns an object with the number of the next write, for a create or a patch. The values
// of the labels red and blue are random.
func (c *churn) object(gvr schema.GroupVersionResource, name string, r *rand.Rand) *unstructured.Unstructured {
	number := strconv.FormatUint(c.number.Add(1), 10)
	labels := map[string]any{writeLabel: number, "red": "no", "blue": "no"}
	for _, colour := range []string{"red", "blue"} {
		if r.IntN(2) == 0 {
			labels[colour] = "yes"
		}
	}
	o := map[string]any{"metadata": map[string]any{"name": name, "labels": labels}}
	if gvr == configMaps {
		o["apiVersion"], o["kind"] = "v1", "ConfigMap"
		o["data"] = map[string]any{"number": number, "text": fmt.Sprintf("%0*d", r.IntN(2000), r.IntN(1000))}
	} else {
		o["apiVersion"], o["kind"] = gvr.GroupVersion().String(), "Widget"
		o["spec"] = map[string]any{"size": int64(r.IntN(100)), "extra": number}
	}
	return &unstructured.Unstructured{Object: o}
}
