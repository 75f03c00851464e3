package clientgo

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/testing/check"
)

// replicaEvent is a change of a config map in the history of a replica.
type replicaEvent struct {
	version uint64
	event   string
	object  *corev1.ConfigMap
}

// replica is an http.RoundTripper that acts as a replica of an API server that may lag. It serves
// config maps up to the version that it has reached. As with kube-apiserver, a WATCH from a later
// version waits until the replica reaches that version. The replica does not support initial
// events.
type replica struct {
	history []replicaEvent

	mu      sync.Mutex
	reached uint64
	moved   chan struct{} // closed when reached changes
	watches []*io.PipeWriter
}

// move sets the version that the replica has reached. A lower version simulates a load balancer
// that directs all clients to another replica, which lags.
func (r *replica) move(to uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if to < r.reached {
		for _, w := range r.watches {
			w.CloseWithError(io.ErrUnexpectedEOF)
		}
		r.watches = nil
	}
	r.reached = to
	close(r.moved)
	r.moved = make(chan struct{})
}

// state returns the replica's objects, sorted by name, the version that it has reached, and a
// channel that is closed at the next move.
func (r *replica) state() (objects []corev1.ConfigMap, version uint64, moved <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	byName := map[string]*corev1.ConfigMap{}
	for _, e := range r.history {
		if e.version <= r.reached {
			byName[e.object.Name] = e.object
		}
		if e.version <= r.reached && e.event == "DELETED" {
			delete(byName, e.object.Name)
		}
	}
	for _, o := range byName {
		objects = append(objects, *o)
	}
	slices.SortFunc(objects, func(a, b corev1.ConfigMap) int { return strings.Compare(a.Name, b.Name) })
	return objects, r.reached, r.moved
}

// RoundTrip implements http.RoundTripper.
func (r *replica) RoundTrip(req *http.Request) (*http.Response, error) {
	q := req.URL.Query()
	switch {
	case q.Has("sendInitialEvents"):
		return answerJSON(req, http.StatusUnprocessableEntity, metav1.Status{Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid}), nil
	case q.Has("watch"):
		in, out := io.Pipe()
		context.AfterFunc(req.Context(), func() { out.CloseWithError(req.Context().Err()) })
		r.mu.Lock()
		r.watches = append(r.watches, out)
		r.mu.Unlock()
		go r.watch(req.Context(), out, resourceversion.Number(q.Get("resourceVersion")))
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: in, Request: req}, nil
	}
	items, version, _ := r.state()
	return answerJSON(req, http.StatusOK, corev1.ConfigMapList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"},
		ListMeta: metav1.ListMeta{ResourceVersion: resourceversion.Format(version)}, Items: items,
	}), nil
}

// watch sends the changes after version from. If from is 0, it sends the current state first.
func (r *replica) watch(ctx context.Context, out *io.PipeWriter, from uint64) {
	send := func(event string, o *corev1.ConfigMap) bool {
		o = o.DeepCopy()
		// The objects in the history lack the kind.
		o.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
		return json.NewEncoder(out).Encode(map[string]any{"type": event, "object": o}) == nil
	}
	objects, reached, moved := r.state()
	if from == 0 {
		from = reached
		for i := range objects {
			if !send("ADDED", &objects[i]) {
				return
			}
		}
	}
	for {
		for _, e := range r.history {
			if e.version > from && e.version <= reached && !send(e.event, e.object) {
				return
			}
		}
		from = max(from, reached)
		select {
		case <-ctx.Done():
			return
		case <-moved:
		}
		_, reached, moved = r.state()
	}
}

func answerJSON(req *http.Request, code int, body any) *http.Response {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // cannot happen: API objects can always be encoded
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(string(text))), Request: req}
}

// TestPinnedVersion uses an informer with a transform and a TweakListOptionsFunc. This function
// sets the resourceVersion of each request to "0", even if the reflector requests another version.
// For a while, the replica that answers lags. Afterwards the store and the handlers must reach the
// current state. No event may contradict earlier events (for example, add an object twice), and no
// object may be transformed twice. If the lag is shorter than a minute, Weir's informer must not go
// back to an older state.
func TestPinnedVersion(t *testing.T) {
	for which, adopted := range map[string]func(*rest.Config) cache.SharedIndexInformer{
		"client-go":                          pinnedInformer,
		"weir":                               func(cfg *rest.Config) cache.SharedIndexInformer { return Adopt(pinnedInformer(capturing(cfg))) },
		"weir, the transport is not wrapped": func(cfg *rest.Config) cache.SharedIndexInformer { return Adopt(pinnedInformer(cfg)) },
	} {
		for name, lag := range map[string]time.Duration{"for a while": 20 * time.Second, "for long": 20 * time.Minute} {
			t.Run(which+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { pinnedVersion(t, adopted, lag) })
			})
		}
	}
}

// pinnedInformer returns an informer of a client-go factory with the tweak and the transform.
func pinnedInformer(cfg *rest.Config) cache.SharedIndexInformer {
	return informers.NewSharedInformerFactoryWithOptions(kubernetes.NewForConfigOrDie(cfg), noResync,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.ResourceVersion = "0" }),
		informers.WithTransform(func(obj any) (any, error) {
			obj.(*corev1.ConfigMap).Labels["v"] += "t"
			return obj, nil
		})).Core().V1().ConfigMaps().Informer()
}

func pinnedVersion(t *testing.T, build func(*rest.Config) cache.SharedIndexInformer, lag time.Duration) {
	at := func(version uint64, event, name, v string) replicaEvent {
		o := configMap("n", name, map[string]string{"v": v})
		o.UID, o.ResourceVersion = "12345678-1234-4234-8234-123456789abc", resourceversion.Format(version)
		return replicaEvent{version, event, o}
	}
	server := &replica{reached: 9, moved: make(chan struct{}), history: []replicaEvent{
		at(8, "ADDED", "a", "1"), at(9, "ADDED", "b", "1"), at(12, "MODIFIED", "a", "2"), at(13, "DELETED", "b", "1"), at(14, "ADDED", "c", "1"),
	}}
	inf := build(&rest.Config{Host: "http://replica", Transport: server, QPS: -1})
	// client-go's default handler may sleep for years of the bubble's clock, see quiet.
	check.NoError(t, inf.SetWatchErrorHandler(func(*cache.Reflector, error) {}))
	calls := observe(t, inf)
	run(t, inf)
	time.Sleep(time.Second)
	server.move(13)
	time.Sleep(time.Second)
	check.Equal(t, shown(inf.GetStore().List()), "n/a@12 v=2t", "before the lag")
	server.move(9)
	time.Sleep(lag)
	server.move(14)
	time.Sleep(time.Hour)
	const want = "n/a@12 v=2t\nn/c@14 v=1t"
	check.Equal(t, shown(inf.GetStore().List()), want, "holds")
	if got := told(t, calls.all()); got != want {
		t.Errorf("told\n%s\nby\n%s", got, strings.Join(calls.all(), "\n"))
	}
	if _, ours := inf.(*informer); ours && lag < time.Minute && len(calls.all()) != 5 {
		t.Errorf("told of 5 changes by\n%s", strings.Join(calls.all(), "\n"))
	}
}

// told returns the objects that a handler knows after the calls that lines describe. It fails the
// test if a call contradicts an earlier call, for example an add of a known object.
func told(t *testing.T, lines []string) string {
	t.Helper()
	known := map[string]string{} // formatted objects by key
	for _, line := range lines {
		verb, rest, _ := strings.Cut(strings.TrimSuffix(line, " initial"), " ")
		is := rest
		if strings.HasPrefix(rest, "tombstone ") {
			is = strings.SplitN(rest, " ", 3)[2]
		}
		if was, now, ok := strings.Cut(rest, " -> "); ok {
			if is = now; known[keyOf(was)] != was {
				t.Errorf("%s, but known was %q", line, known[keyOf(was)])
			}
		}
		key := keyOf(is)
		if _, ok := known[key]; ok == (verb == "add") {
			t.Errorf("%s, but known was %q", line, known[key])
		}
		if known[key] = is; verb == "delete" {
			delete(known, key)
		}
	}
	var all []string
	for _, is := range known {
		all = append(all, is)
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// keyOf returns the key of an object, from the text that show returns.
func keyOf(shown string) string {
	key, _, _ := strings.Cut(shown, "@")
	return key
}
