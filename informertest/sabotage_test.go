package informertest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/informertest"
)

// sabotage is a way to do wrong what an informer must do, and the stories that must notice.
type sabotage struct {
	name    string
	config  func(*rest.Config)
	options func(*informertest.Options)
	native  func(*weir.Options)
	wrap    func(informertest.Informer) informertest.Informer
	noticed []string
}

// sabotages are made of Weir's informer, which fails no story by itself.
var sabotages = []sabotage{
	{
		name: "deletions are not told",
		wrap: handlers(func(h informertest.Handler) informertest.Handler {
			h.Deleted = nil
			return h
		}),
		noticed: []string{"AddUpdateDelete", "ResyncAmongChanges", "GoneEvent", "GoneStatus", "DeletedUnseen", "RelistBroken",
			"DownForLong", "ForbiddenLater", "TooLargeVersion", "InternalErrors", "WatchEndsAtOnce", "ManyHandlers", "BlockedHandlerCatchesUp", "UndecodableThenDeleted", "DeletedFinalState"},
	},
	{
		name: "another content is told",
		wrap: handlers(func(h informertest.Handler) informertest.Handler {
			told := h.Added
			h.Added = func(p *corev1.Pod, initial bool) {
				p = p.DeepCopy()
				p.Spec.NodeName += "-2"
				told(p, initial)
			}
			return h
		}),
		noticed: []string{"FirstList", "ManyHandlers"},
	},
	{
		name:    "a handler has synced when nothing more waits for it",
		wrap:    func(inf informertest.Informer) informertest.Informer { return idleSync{inf} },
		noticed: []string{"SyncedUnderChurn"},
	},
	{
		name: "additions are told twice",
		wrap: handlers(func(h informertest.Handler) informertest.Handler {
			told := h.Added
			h.Added = func(p *corev1.Pod, initial bool) { told(p, initial); told(p, initial) }
			return h
		}),
		noticed: []string{"FirstList", "EmptyList", "HandlerDuringFirstList", "FirstListBroken", "RunTwice", "PassedUnseen"},
	},
	{
		name: "nothing is initial",
		wrap: handlers(func(h informertest.Handler) informertest.Handler {
			told := h.Added
			h.Added = func(p *corev1.Pod, _ bool) { told(p, false) }
			return h
		}),
		noticed: []string{"FirstList", "LateHandler"},
	},
	{
		name: "updates tell the new version as the old one",
		wrap: handlers(func(h informertest.Handler) informertest.Handler {
			told := h.Updated
			h.Updated = func(_, p *corev1.Pod) { told(p, p) }
			return h
		}),
		noticed: []string{"UndecodableThenGood", "BurstInOrder", "RecreatedUnseen", "BlockedHandlerCatchesUp", "WatchBroken", "WatchBrokenMidEvent", "GarbledEvent"},
	},
	{
		name: "handlers are called one at a time, all of them",
		wrap: func(inf informertest.Informer) informertest.Informer {
			turn := make(chan struct{}, 1)
			return handlers(func(h informertest.Handler) informertest.Handler { return inTurn(h, turn) })(inf)
		},
		noticed: []string{"SlowHandlerDelaysNobody"},
	},
	{
		name:    "everything has synced always",
		wrap:    func(inf informertest.Informer) informertest.Informer { return hasty{inf} },
		noticed: []string{"NotSyncedHalfWay", "StopBeforeSync", "HandlerDuringFirstList", "HandlerSyncIsItsOwn", "EndlesslyBroken", "ForbiddenIsAnError"},
	},
	{
		name:    "nothing is held",
		wrap:    func(inf informertest.Informer) informertest.Informer { return empty{inf} },
		noticed: []string{"HeldBeforeTold", "SlowHandlerKeepsTheWatch", "IndexFromStart", "StrangeEvent", "StopFreesEverything", "ListKeysInAnyOrder"},
	},
	{
		name:    "indexes give nothing",
		wrap:    func(inf informertest.Informer) informertest.Informer { return indexless{inf} },
		noticed: []string{"IndexFromStart", "IndexAddedLater", "IndexNameTaken", "BlockedIndexFunction"},
	},
	{
		name:    "removed handlers are called on, handlers are taken after the stop",
		wrap:    func(inf informertest.Informer) informertest.Informer { return clinging{inf} },
		noticed: []string{"RemovedHandler", "HandlerRemovesItself", "HandlerAfterStop"},
	},
	{
		name:    "the stop takes its time",
		wrap:    func(inf informertest.Informer) informertest.Informer { return lingering{inf} },
		noticed: []string{"StopBeforeSync", "StopInAnswer", "StopInBackoff", "RunTwice"},
	},
	{
		name:    "the stop is not heard",
		wrap:    func(inf informertest.Informer) informertest.Informer { return deaf{inf} },
		noticed: []string{"StopOneOfTwo", "StopBeforeSync", "HandlerAfterStop"},
	},
	{
		name:    "late handlers are not told the state",
		wrap:    func(inf informertest.Informer) informertest.Informer { return forgetful{inf} },
		noticed: []string{"LateHandler", "HandlerAddsHandler", "RemovedHandler"},
	},
	{
		name:    "a list that fails is an empty one",
		config:  roundTrips(emptied),
		noticed: []string{"RelistBroken", "FirstListBroken", "EndlesslyBroken", "ForbiddenIsAnError"},
	},
	{
		name:    "there is never an error",
		wrap:    func(inf informertest.Informer) informertest.Informer { return silent{inf} },
		noticed: []string{"ForbiddenIsAnError", "ForbiddenIsNoTimeout", "ForbiddenLater", "ErrorEnds", "UnknownResource", "Unauthorized", "OutageIsAnError"},
	},
	{
		name:    "the first failure is the end",
		wrap:    func(inf informertest.Informer) informertest.Informer { return fragile{inf} },
		noticed: []string{"DownAtStart", "DownForLong", "ForbiddenThenGranted", "UnknownResource", "Unauthorized", "TooManyRequests", "InternalErrors", "HangingRequest", "StalledList", "WebPage", "EndlessTooOld", "ExpiredContinueToken", "TooLargeVersion"},
	},
	{
		name:    "resyncs come by themselves",
		options: func(o *informertest.Options) { o.Resync = max(o.Resync, 30*time.Second) / 2 },
		noticed: []string{"ResyncReplays", "ResyncOff", "ResyncPerHandler"},
	},
	{
		name:    "every request is made a hundred times",
		config:  roundTrips(hundredfold),
		noticed: []string{"RefusedWithPatience", "EndlessTooOld", "EndlesslyBroken", "WatchEndsAtOnce", "WatchEnded", "TooManyRequests"},
	},
	{
		name:    "watches begin at the state and not where they should",
		config:  roundTrips(fromNow),
		noticed: []string{"WatchEnded", "WatchBroken", "BookmarkMovesOn"},
	},
	{
		name:    "only the first connection is any good",
		config:  roundTrips(once),
		noticed: []string{"GoneEvent", "WatchEnded", "RestoredFromBackup", "InitialEventsRefused", "InitialEventsIgnored", "BookmarkNeverComes", "NoBookmarks"},
	},
	{
		name:    "objects have in common what is the same",
		native:  func(o *weir.Options) { o.ShareDecoded = true },
		noticed: []string{"ForgottenCopy", "ForgottenCopyOfOld"},
	},
	{
		name:    "whatever was told is kept",
		wrap:    keepAll,
		noticed: []string{"PinnedArray", "BlockedHandlerIsBounded"},
	},
}

func TestSabotage(t *testing.T) {
	defer func(was []utilruntime.ErrorHandler) { utilruntime.ErrorHandlers = was }(utilruntime.ErrorHandlers)
	utilruntime.ErrorHandlers = nil
	for _, s := range sabotages {
		t.Run(s.name, func(t *testing.T) {
			rig := informertest.Rig{Name: s.name, New: s.make}
			for _, story := range s.noticed {
				if faults := informertest.Play(t, rig, story); len(faults) == 0 {
					t.Errorf("%s does not notice", story)
				}
			}
		})
	}
}

// TestEveryStoryCanFail: by one of the sabotages, or by client-go.
func TestEveryStoryCanFail(t *testing.T) {
	failed := map[string]bool{}
	for _, s := range sabotages {
		for _, story := range s.noticed {
			failed[story] = true
		}
	}
	for _, story := range informertest.Stories() {
		if clientGoFails[story.Name] == "" && clientGoWatchListFails[story.Name] == "" && !failed[story.Name] {
			t.Errorf("nothing is known to fail %s", story.Name)
		}
	}
}

func (s sabotage) make(cfg *rest.Config, o informertest.Options) (informertest.Informer, error) {
	if s.config != nil {
		s.config(cfg)
	}
	if s.options != nil {
		s.options(&o)
	}
	var change []func(*weir.Options)
	if s.native != nil {
		change = append(change, s.native)
	}
	inf, err := newNative(weir.ModeAuto, change...)(cfg, o)
	if err != nil || s.wrap == nil {
		return inf, err
	}
	return s.wrap(inf), nil
}

// handled changes every handler.
type handled struct {
	informertest.Informer
	change func(informertest.Handler) informertest.Handler
}

func handlers(change func(informertest.Handler) informertest.Handler) func(informertest.Informer) informertest.Informer {
	return func(inf informertest.Informer) informertest.Informer { return handled{inf, change} }
}

func (h handled) Handle(handler informertest.Handler, o informertest.HandlerOptions) (informertest.Registration, error) {
	return h.Informer.Handle(h.change(handler), o)
}

// idleSync is an informer whose handlers say that they have synced once they were told of nothing for a while.
type idleSync struct{ informertest.Informer }

func (i idleSync) Handle(h informertest.Handler, o informertest.HandlerOptions) (informertest.Registration, error) {
	idle := &idleRegistration{last: time.Now()}
	updated := h.Updated
	h.Updated = func(old, p *corev1.Pod) { idle.touch(); updated(old, p) }
	var err error
	idle.Registration, err = i.Informer.Handle(h, o)
	return idle, err
}

type idleRegistration struct {
	informertest.Registration
	mu   sync.Mutex
	last time.Time
}

func (r *idleRegistration) touch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = time.Now()
}

func (r *idleRegistration) HasSynced() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.last) > time.Second && r.Registration.HasSynced()
}

func inTurn(h informertest.Handler, turn chan struct{}) informertest.Handler {
	take := func(call func()) {
		turn <- struct{}{}
		defer func() { <-turn }()
		call()
	}
	return informertest.Handler{
		Added:   func(p *corev1.Pod, initial bool) { take(func() { h.Added(p, initial) }) },
		Updated: func(old, p *corev1.Pod) { take(func() { h.Updated(old, p) }) },
		Deleted: func(p *corev1.Pod) { take(func() { h.Deleted(p) }) },
	}
}

func keepAll(inf informertest.Informer) informertest.Informer {
	var mu sync.Mutex
	var kept []*corev1.Pod
	keep := func(p *corev1.Pod) {
		mu.Lock()
		defer mu.Unlock()
		kept = append(kept, p)
	}
	both := handlers(func(h informertest.Handler) informertest.Handler {
		return informertest.Handler{
			Added:   func(p *corev1.Pod, initial bool) { keep(p); h.Added(p, initial) },
			Updated: func(old, p *corev1.Pod) { keep(p); h.Updated(old, p) },
			Deleted: h.Deleted,
		}
	})(inf)
	// A second handler, as the one of the story may be blocked.
	_, err := inf.Handle(informertest.Handler{Updated: func(_, p *corev1.Pod) { keep(p) }}, informertest.HandlerOptions{})
	if err != nil {
		panic(err)
	}
	return both
}

type hasty struct{ informertest.Informer }

func (hasty) HasSynced() bool { return true }

func (h hasty) Handle(handler informertest.Handler, o informertest.HandlerOptions) (informertest.Registration, error) {
	r, err := h.Informer.Handle(handler, o)
	return hastyRegistration{r}, err
}

type hastyRegistration struct{ informertest.Registration }

func (hastyRegistration) HasSynced() bool { return true }

type empty struct{ informertest.Informer }

func (empty) ResourceVersions() map[string]string { return nil }
func (empty) Get(string) (*corev1.Pod, bool)      { return nil, false }

type indexless struct{ informertest.Informer }

func (indexless) AddIndex(string, informertest.IndexFunc) error     { return nil }
func (indexless) ByIndex(string, string) (keys []string, err error) { return nil, nil }

type clinging struct{ informertest.Informer }

func (c clinging) Handle(handler informertest.Handler, o informertest.HandlerOptions) (informertest.Registration, error) {
	r, err := c.Informer.Handle(handler, o)
	if err != nil {
		return nil, nil
	}
	return clingingRegistration{r}, nil
}

type clingingRegistration struct{ informertest.Registration }

func (clingingRegistration) Remove() error { return nil }

type lingering struct{ informertest.Informer }

func (l lingering) Run(ctx context.Context) {
	l.Informer.Run(ctx)
	time.Sleep(20 * time.Second)
}

type deaf struct{ informertest.Informer }

func (d deaf) Run(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Minute)
	defer cancel()
	d.Informer.Run(ctx)
}

type forgetful struct{ informertest.Informer }

func (f forgetful) Handle(h informertest.Handler, o informertest.HandlerOptions) (informertest.Registration, error) {
	if told, late := h.Added, f.HasSynced(); late {
		h.Added = func(p *corev1.Pod, initial bool) {
			if !initial {
				told(p, initial)
			}
		}
	}
	return f.Informer.Handle(h, o)
}

var errTimeout = errors.New("timeout")

type silent struct{ informertest.Informer }

func (silent) Err() error { return nil }

func (s silent) WaitForSync(ctx context.Context) error {
	if s.Informer.WaitForSync(ctx) != nil {
		return errTimeout
	}
	return nil
}

type fragile struct{ informertest.Informer }

func (f fragile) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			if f.Err() != nil {
				cancel()
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	f.Informer.Run(ctx)
	cancel()
	watching.Wait()
}

// trip is a RoundTripper made of a function.
type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func roundTrips(make func(next http.RoundTripper) trip) func(*rest.Config) {
	return func(cfg *rest.Config) { cfg.Transport = make(cfg.Transport) }
}

func hundredfold(next http.RoundTripper) trip {
	return func(r *http.Request) (*http.Response, error) {
		for range 99 {
			ctx, cancel := context.WithTimeout(r.Context(), time.Millisecond)
			if resp, err := next.RoundTrip(r.Clone(ctx)); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body) // its bytes are of no interest
				_ = resp.Body.Close()
			}
			cancel()
		}
		return next.RoundTrip(r)
	}
}

func fromNow(next http.RoundTripper) trip {
	return func(r *http.Request) (*http.Response, error) {
		q := r.URL.Query()
		if q.Get("watch") != "" {
			r = r.Clone(r.Context())
			q.Set("resourceVersion", "1")
			r.URL.RawQuery = q.Encode()
		}
		return next.RoundTrip(r)
	}
}

func once(next http.RoundTripper) trip {
	var mu sync.Mutex
	var lists int
	return func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/pods") {
			mu.Lock()
			lists++
			n := lists
			mu.Unlock()
			if n > 1 {
				return nil, errTimeout
			}
		}
		return next.RoundTrip(r)
	}
}

func emptied(next http.RoundTripper) trip {
	var nothing bytes.Buffer
	list := &corev1.PodList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "1500"},
	}
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(list, &nothing); err != nil {
		panic(err)
	}
	return func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if r.URL.Query().Get("watch") != "" || !strings.HasSuffix(r.URL.Path, "/pods") {
			return resp, err
		}
		if err == nil {
			body, broken := io.ReadAll(resp.Body)
			_ = resp.Body.Close() // it has been read, as far as it goes
			if broken == nil && resp.StatusCode == http.StatusOK {
				resp.Body = io.NopCloser(bytes.NewReader(body))
				return resp, nil
			}
		}
		return &http.Response{
			StatusCode: http.StatusOK,
			Header:     http.Header{"Content-Type": {runtime.ContentTypeProtobuf}},
			Body:       io.NopCloser(bytes.NewReader(nothing.Bytes())),
			Request:    r,
		}, nil
	}
}
