package informers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/resourceversion"

	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// listening is the first line that a stub process sends.
type listening struct{ URL string }

// StubSpec configures a stub.
type StubSpec struct {
	Server  string // the API server whose pods are models; empty: the command line's
	Objects int
	JSON    bool // use JSON instead of protobuf
	Custom  bool // the pods are custom resources, always in JSON
	// Lifecycle makes rollouts replace pods.
	Lifecycle bool
}

// encoding returns the encoding of the stub's pods.
func (s *StubSpec) encoding() *encoding {
	switch {
	case s.Custom:
		return workloadsInJSON
	case s.JSON:
		return podsInJSON
	}
	return podsInProtobuf
}

// modelsPage is the page size of the LIST that reads models.
const modelsPage = 500

// stub is a server of pods that carries out orders: it answers LISTs, keeps WATCHes open, and sends
// the events that its order asks for. It computes little, so that the measured client is always the
// slower side. The embedded API server cannot replace it: that server needs more CPU to store and
// encode a change than the client needs to receive it. A stub has only one encoding, because it
// stores its pods encoded.
type stub struct {
	pods *stubPods

	mu      sync.Mutex
	order   order
	sent    bool          // the order has been carried out
	waiting int           // the number of watches that wait for an order
	version int64         // the last version that a watch has sent, or started from
	changed chan struct{} // closed and replaced when one of the fields above changes
}

func newStub(pods *stubPods) *stub {
	return &stub{pods: pods, order: order{Do: doHold}, sent: true, changed: make(chan struct{})}
}

// serveStub runs a stub in the child process. It reads models from the server of cfg, serves on the
// loopback address, and sends its URL. It blocks until ctx ends or the server fails.
func serveStub(ctx context.Context, cfg *rest.Config, spec *StubSpec, send func(any) error) {
	client := figures.Must(kubernetes.NewForConfig(inProtobuf(cfg)))
	pods := figures.Must(newStubPods(spec.encoding(), spec.Objects, spec.Lifecycle, func() iter.Seq2[*corev1.Pod, error] { return podsOf(ctx, client) }))
	l := figures.Must(net.Listen("tcp", "127.0.0.1:0"))
	server := &http.Server{Handler: newStub(pods), BaseContext: func(net.Listener) context.Context { return ctx }}
	context.AfterFunc(ctx, func() { server.Close() })
	figures.Check(send(listening{URL: "http://" + l.Addr().String()}))
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		figures.Check(err)
	}
}

// podsOf returns an iterator over the pods of a server, which it reads in pages. An error ends it.
func podsOf(ctx context.Context, client kubernetes.Interface) iter.Seq2[*corev1.Pod, error] {
	return func(yield func(*corev1.Pod, error) bool) {
		o := metav1.ListOptions{Limit: modelsPage}
		for {
			page, err := client.CoreV1().Pods(corev1.NamespaceAll).List(ctx, o)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page.Items {
				if !yield(&page.Items[i], nil) {
					return
				}
			}
			if o.Continue = page.Continue; o.Continue == "" {
				return
			}
		}
	}
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	enc := s.pods.encoding
	switch {
	case r.URL.Path == controlPath && r.Method == http.MethodPost:
		s.take(w, r)
	case r.URL.Path == settledPath:
		s.settled(w, r)
	case r.URL.Path == "/version":
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		io.WriteString(w, `{"major":"1","minor":"37","gitVersion":"v1.37.1"}`)
	case r.URL.Path != enc.path || r.Method != http.MethodGet:
		http.NotFound(w, r)
	case !strings.Contains(r.Header.Get("Accept"), enc.contentType):
		http.Error(w, "this stub speaks "+enc.contentType+" only", http.StatusNotAcceptable)
	case r.URL.Query().Get("watch") == "" || r.URL.Query().Get("watch") == "false":
		s.list(w, r)
	default:
		s.watch(w, r)
	}
}

func (s *stub) list(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", s.pods.encoding.contentType)
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(s.pods.list)
		return
	}
	s.pods.writeList(w)
}

func (s *stub) watch(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", s.pods.encoding.streamType)
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w).Flush
	from := int64(resourceversion.Number(r.URL.Query().Get("resourceVersion")))
	out := &events{pods: s.pods, to: w}
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		if out.initial() != nil {
			return
		}
		from = 0
	}
	from = max(from, s.pods.version())
	s.reach(from)
	// Create the history only for a watch that changes pods, because it needs memory.
	changes := sync.OnceValue(func() *history { return newHistory(out, from-s.pods.version()) })
	for flush() == nil {
		o, ok := s.next(r.Context())
		if !ok {
			return
		}
		switch o.Do {
		case doModify:
			if s.modify(r.Context(), flush, o, changes()) != nil {
				return
			}
			s.reach(changes().version())
		case doRollout:
			if changes().rollout() != nil {
				return
			}
			s.reach(changes().version())
			s.obey(o, true)
		case doExpire:
			w.Write(s.pods.expired)
			return
		case doRemove:
			if out.removed(o.Keep) != nil {
				return
			}
			s.reach(s.pods.version() + int64(s.pods.n))
			s.obey(o, true)
		}
	}
}

// next waits for an order that is not carried out yet. It returns false if ctx has ended.
func (s *stub) next(ctx context.Context) (order, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting++
	s.wake()
	defer func() { s.waiting-- }()
	for s.sent {
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if ctx.Err() != nil {
			return order{}, false
		}
	}
	o := s.order
	if o.Do == doExpire {
		s.order.Times--
		s.sent = s.order.Times == 0
	}
	return o, true
}

// reach records the resourceVersion of the last event that a watch has sent, or from which the
// watch starts.
func (s *stub) reach(version int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = version
}

// wake wakes all goroutines that wait for a change of the state. The caller holds s.mu.
func (s *stub) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// obey sets the order. The parameter sent says whether the order is already carried out.
func (s *stub) obey(o order, sent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.order, s.sent = o, sent
	s.wake()
}

// modify sends MODIFIED events until another order is set. An error means that the watch has ended.
func (s *stub) modify(ctx context.Context, flush func() error, o order, changes *history) error {
	if o.Rate == 0 {
		const burst = 64 // events between two checks of the order
		for s.stands(o) && ctx.Err() == nil && changes.err == nil {
			for range burst {
				changes.change(o.Change)
			}
		}
		return errors.Join(changes.write(), ctx.Err())
	}
	start, first := time.Now(), changes.next
	tick := time.Tick(10 * time.Millisecond)
	for s.stands(o) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick:
		}
		for due := first + int64(time.Since(start).Seconds()*o.Rate); changes.next < due; {
			changes.change(o.Change)
		}
		if err := errors.Join(changes.write(), flush()); err != nil {
			return err
		}
	}
	return nil
}

// stands reports whether o is still the current order.
func (s *stub) stands(o order) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.order == o
}

// take handles a request that sets the order.
func (s *stub) take(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<10)).Decode(&o); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	sent := false
	switch o.Do {
	case doHold:
		sent = true
	case doRollout:
		if s.pods.rolled == 0 {
			http.Error(w, "rollout: no pods have a lifecycle", http.StatusBadRequest)
			return
		}
	case doModify:
		if !slices.Contains(Changes(), o.Change) || o.Change == ChangeLifecycle {
			http.Error(w, fmt.Sprintf("modify: unknown change %q", o.Change), http.StatusBadRequest)
			return
		}
	case doExpire:
		sent = o.Times <= 0
	case doRemove:
		if o.Keep <= 0 {
			http.Error(w, "remove: the interval of the kept pods is missing", http.StatusBadRequest)
			return
		}
	default:
		http.Error(w, fmt.Sprintf("do what? %q", o.Do), http.StatusBadRequest)
		return
	}
	s.obey(o, sent)
}

func (s *stub) settled(w http.ResponseWriter, r *http.Request) {
	for {
		s.mu.Lock()
		done, changed, version := s.sent && s.waiting > 0, s.changed, s.version
		s.mu.Unlock()
		if done {
			io.WriteString(w, resourceversion.Format(uint64(version)))
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}
