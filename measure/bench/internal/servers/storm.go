package servers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

const (
	// stormWorkers is the number of workers that handle the pods of a resync, like a controller's
	// workers.
	stormWorkers = 8
	// filterEach determines the share of the groups (pods with the same value of the label) that a
	// filter accepts: one in filterEach.
	filterEach = 100
)

// ResyncStorm is the incident of a controller during one resync of all pods. For each pod, the
// controller's handler finds the pods with the same value of a label. With client-go's informer,
// the handler LISTs these pods: from etcd, from the watch cache, only for some values, or through
// the proxy. With weir's informer, it reads them from an index.
func ResyncStorm() Replay {
	current, cached := "", "resourceVersion=0&"
	return Replay{Every: 100 * time.Millisecond, Ways: []Way{
		{Label: `client-go, LIST ""`, load: storm{version: current}.load},
		{Label: `client-go, LIST "0"`, load: storm{version: cached}.load},
		{Label: "client-go, filtered", load: storm{version: cached, filter: true}.load},
		{Label: "through weir-proxy", Proxy: true, load: storm{version: cached}.load},
		{Label: "Weir, index", load: storm{weir: true}.load},
	}}
}

// errPatience is the cause with which a storm that takes too long ends.
var errPatience = errors.New("the resync takes too long")

// storm describes what the controller of a ResyncStorm does.
type storm struct {
	version string // the resourceVersion of its LISTs, as a part of the query
	filter  bool
	weir    bool // use weir's informer, and an index instead of LISTs
}

// resyncing is a running storm.
type resyncing struct {
	storm
	t      *trial
	c      *client
	index  *weir.Informer[*corev1.Pod] // nil if the storm uses no index
	groups chan string                 // the label's values of the pods that the handler receives
	pods   int64
	begun  chan struct{} // closed when the measurement starts
	taken  atomic.Int64  // pods that workers have received
	done   atomic.Int64  // pods that workers have handled
	ended  chan struct{} // closed when all pods are handled
	cancel context.CancelCauseFunc
}

func (s storm) load(ctx context.Context, t *trial, begin func()) Figures {
	figures.Require(len(t.pods.apps) > 0, errNoApps)
	patient, end := context.WithTimeoutCause(ctx, t.Patience, errPatience)
	defer end()
	ctx, cancel := context.WithCancelCause(patient)
	r := &resyncing{
		storm: s, t: t, c: t.client(), pods: int64(len(t.pods.keys)), groups: make(chan string, stormWorkers), cancel: cancel,
		begun: make(chan struct{}), ended: make(chan struct{}),
	}
	defer r.c.close()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil)
	for range stormWorkers {
		running.Go(func() {
			if err := figures.Attempt(func() { r.work(ctx) }); err != nil {
				cancel(err)
			}
		})
	}
	if s.weir {
		r.startWeir(ctx, &running)
	} else {
		r.startClientGo(ctx, &running)
	}
	begin()
	close(r.begun)
	select {
	case <-r.ended:
	case <-ctx.Done():
	}
	if cause := context.Cause(ctx); cause != errPatience {
		figures.Check(cause)
	}
	done := r.done.Load()
	if done < r.pods {
		t.say(fmt.Sprintf("%d of the resync's %d calls were not done after %s", r.pods-done, r.pods, t.Patience))
	}
	return Figures{"calls": float64(done)}
}

// startClientGo starts client-go's informer and returns when it has synced.
func (r *resyncing) startClientGo(ctx context.Context, running *sync.WaitGroup) {
	cfg := rest.CopyConfig(r.t.config)
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	client := figures.Must(kubernetes.NewForConfig(cfg))
	informer := informers.NewSharedInformerFactory(client, r.t.Resync).Core().V1().Pods().Informer()
	handler := figures.Must(informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(before, object any) {
		if before == object { // from a resync, not from the server
			r.handle(ctx, object.(*corev1.Pod).Labels[r.t.pods.label])
		}
	}}))
	running.Go(func() { informer.RunWithContext(ctx) })
	select {
	case <-handler.HasSyncedChecker().Done():
	case <-ctx.Done():
		figures.Check(context.Cause(ctx), "the informer has not synced")
	}
}

// startWeir starts weir's informer with an index and returns when it has synced.
func (r *resyncing) startWeir(ctx context.Context, running *sync.WaitGroup) {
	label := r.t.pods.label
	r.index = figures.Must(weir.NewInformer[*corev1.Pod](r.t.config, weir.Options{Indexes: map[string]weir.Index{label: weir.ByLabel(label)}}))
	figures.Must(r.index.Handle(func(ctx context.Context, e weir.Event[*corev1.Pod]) {
		if e.Type == weir.Resynced {
			value, _ := e.Item().Label(label)
			r.handle(ctx, value)
		}
	}, weir.HandlerOptions[*corev1.Pod]{Resync: r.t.Resync}))
	running.Go(func() { r.cancel(r.index.Run(ctx)) })
	figures.Check(r.index.WaitForSync(ctx))
}

// handle passes a pod's group to a worker, and blocks until a worker receives it. The informer's
// handler calls it. Before the measurement starts, handle drops all pods; the next resync repeats
// them.
func (r *resyncing) handle(ctx context.Context, group string) {
	select {
	case <-r.begun:
	default:
		return
	}
	select {
	case r.groups <- group:
	case <-r.ended: // this call is from a later resync
	case <-ctx.Done():
	}
}

// work receives groups, which are values of the label. It finds the pods of each group, until all
// pods are handled.
func (r *resyncing) work(ctx context.Context) {
	for {
		select {
		case group := <-r.groups:
			if r.taken.Add(1) > r.pods { // this pod is from a later resync
				return
			}
			r.look(ctx, group)
			r.t.told.Add(1)
			if r.done.Add(1) == r.pods {
				close(r.ended)
			}
		case <-r.ended:
			return
		case <-ctx.Done():
			return
		}
	}
}

// look finds the pods of a group: in the index, or with a LIST unless the filter excludes the
// group.
func (r *resyncing) look(ctx context.Context, group string) {
	selector := r.t.pods.label + "=" + group
	if r.index != nil {
		for _, err := range r.index.By(r.t.pods.label, group) {
			figures.Check(err)
		}
		return
	}
	if i, ok := slices.BinarySearch(r.t.pods.apps, selector); r.filter && (!ok || i%filterEach != 0) {
		return
	}
	r.t.requests.Add(1)
	figures.Must(countList(ctx, r.c, r.version+"labelSelector="+url.QueryEscape(selector)))
}
