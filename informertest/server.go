package informertest

import (
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/resourceversion"
)

// Server is an API server for pods whose behavior a test can change. It serves LIST and WATCH in
// JSON and protobuf, with kube-apiserver's semantics unless a test changes them. It also serves
// LISTs of the pods of one namespace, and LISTs of the namespaces that have pods. It stores every
// change until Compact. All methods are safe for concurrent use.
type Server struct {
	http    *http.Server
	pipes   *pipes
	clients []*http.Transport
	serving chan struct{} // closed after the HTTP server has ended

	mu       sync.Mutex
	rv       uint64
	uids     int
	objects  map[string]*entry
	versions map[version]*entry // the current versions, and all versions since the last Compact
	history  []change           // all changes since the last Compact, in order
	oldest   uint64             // history has every change after this resourceVersion
	pages    map[string]page
	watchers map[*watcher]struct{}
	rules    map[Op]*rule
	requests []Request
	hammered bool
	sent     int

	keys      []string // the order of the keys of lists in JSON
	minor     int
	initial   InitialEvents
	bookmarks time.Duration
}

// InitialEvents selects how a server handles the parameter sendInitialEvents of a WATCH.
type InitialEvents uint8

const (
	// Honoured sends the state as ADDED events, and then the bookmark that ends initial events. It is
	// the zero value.
	Honoured InitialEvents = iota
	// Ignored ignores the parameter, like a server that is too old for it.
	Ignored
	// Refused answers 422, like a server whose WatchList feature gate is off.
	Refused
)

// change is one event in the server's history.
type change struct {
	eventType string // ADDED, MODIFIED or DELETED
	*entry
}

type version struct{ uid, rv string }

func versionOf(p *corev1.Pod) version { return version{string(p.UID), p.ResourceVersion} }

// NewServer starts a server that has no pods, is at resourceVersion 1000 and reports Kubernetes
// version 1.37. It listens on in-memory connections that only clients of Config reach. The caller
// must call Close.
func NewServer() *Server {
	s := &Server{
		pipes:     newPipes(),
		serving:   make(chan struct{}),
		rv:        1000,
		oldest:    1000,
		objects:   map[string]*entry{},
		versions:  map[version]*entry{},
		pages:     map[string]page{},
		watchers:  map[*watcher]struct{}{},
		rules:     map[Op]*rule{},
		keys:      []string{"kind", "apiVersion", "metadata", "items"},
		minor:     37,
		bookmarks: time.Minute,
	}
	s.http = &http.Server{Handler: s, ErrorLog: log.New(io.Discard, "", 0)}
	go func() {
		defer close(s.serving)
		// Serve returns http.ErrServerClosed after Close.
		_ = s.http.Serve(s.pipes)
	}()
	return s
}

// Close ends all connections and returns when the HTTP server has ended.
func (s *Server) Close() {
	// Closing an in-memory listener does not fail.
	_ = s.http.Close()
	<-s.serving
	s.mu.Lock()
	clients := s.clients
	s.mu.Unlock()
	for _, c := range clients {
		c.CloseIdleConnections()
	}
}

// Config returns a new config whose clients reach the server. The clients of each config have their
// own connections and no rate limit.
func (s *Server) Config() *rest.Config {
	transport := &http.Transport{DialContext: s.pipes.Dial}
	s.mu.Lock()
	s.clients = append(s.clients, transport)
	s.mu.Unlock()
	return &rest.Config{Host: "http://pods.test", Transport: transport, QPS: -1}
}

// SetVersion makes the server report Kubernetes version 1.minor.
func (s *Server) SetVersion(minor int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.minor = minor
}

// SetListKeys sets the order of the keys of lists in JSON: a permutation of "kind", "apiVersion",
// "metadata" and "items". kube-apiserver sorts the keys in lists of custom resources.
func (s *Server) SetListKeys(keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = keys
}

// SetInitialEvents sets how the server handles the parameter sendInitialEvents.
func (s *Server) SetInitialEvents(e InitialEvents) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.initial = e
}

// SetBookmarks sets how often the server sends a bookmark on each watch that is opened later; 0
// means never. The server sends a bookmark even if its resourceVersion has not increased. In a real
// cluster the resourceVersion increases continuously, because objects of other resources change;
// use Advance to simulate that.
func (s *Server) SetBookmarks(period time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bookmarks = period
}

// SetDown(true) breaks all connections, and makes the server refuse new ones until SetDown(false).
func (s *Server) SetDown(down bool) { s.pipes.setDown(down) }

// Dials returns the number of connections that clients tried to open, including refused ones.
func (s *Server) Dials() int { return s.pipes.dialed() }

// Put creates or updates a pod and returns its new resourceVersion. The server stores a copy of pod
// with that resourceVersion and a uid. A created pod gets a new uid; an update does not change the
// uid.
func (s *Server) Put(pod *corev1.Pod) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rv++
	eventType := "MODIFIED"
	key := pod.Namespace + "/" + pod.Name
	c := pod.DeepCopy()
	if old, ok := s.objects[key]; ok {
		c.UID = old.pod.UID
	} else {
		eventType = "ADDED"
		s.uids++
		c.UID = types.UID(fmt.Sprintf("uid-%d", s.uids))
	}
	e := s.entry(c)
	s.objects[key] = e
	s.publish(change{eventType, e})
	return c.ResourceVersion
}

// Spoil updates an existing pod to a version whose metadata can be decoded and whose spec cannot.
// It returns the new resourceVersion.
func (s *Server) Spoil(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rv++
	e := s.entry(s.objects[key].pod.DeepCopy())
	e.spoil()
	s.objects[key] = e
	s.publish(change{"MODIFIED", e})
	return e.pod.ResourceVersion
}

// Delete deletes a pod and returns the deletion's resourceVersion. It panics if the pod does not
// exist.
func (s *Server) Delete(key string) string { return s.DeleteAs(key, func(*corev1.Pod) {}) }

// DeleteAs deletes a pod like Delete, but first calls final with a copy of the pod to change its
// final state. DeleteAs calls final with the server locked, so final must not call the server's
// methods.
func (s *Server) DeleteAs(key string, final func(*corev1.Pod)) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.objects[key]
	if !ok {
		panic(fmt.Sprintf("informertest: no pod %s to delete", key))
	}
	s.rv++
	delete(s.objects, key)
	e := s.entry(old.pod.DeepCopy())
	final(e.pod)
	s.publish(change{"DELETED", e})
	return e.pod.ResourceVersion
}

// entry returns an entry for pod at the server's resourceVersion, which it sets in pod. The caller
// holds the lock.
func (s *Server) entry(pod *corev1.Pod) *entry {
	pod.ResourceVersion = resourceversion.Format(s.rv)
	return &entry{key: pod.Namespace + "/" + pod.Name, rv: s.rv, pod: pod}
}

// publish adds a change to the history and sends it to every watch whose start resourceVersion is
// lower. The caller holds the lock.
func (s *Server) publish(c change) {
	s.history = append(s.history, c)
	s.versions[versionOf(c.pod)] = c.entry
	for w := range s.watchers {
		if c.rv > w.from {
			w.send(frame{change: c})
		}
	}
}

// Advance increases the server's resourceVersion by n without changing a pod, as changes of other
// resources do.
func (s *Server) Advance(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rv += n
}

// Compact drops all past changes and all continue tokens. The server then answers 410 to requests
// with an older resourceVersion, or with a continue token from before Compact.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history, s.oldest = nil, s.rv
	clear(s.pages)
	s.keepVersions()
}

// keepVersions drops all versions of pods except the current versions. The caller holds the lock.
func (s *Server) keepVersions() {
	s.versions = map[version]*entry{} // a new map, because a map never shrinks
	for _, e := range s.objects {
		s.versions[versionOf(e.pod)] = e
	}
}

// version returns the entry of a version of a pod, or nil if the server has dropped that version.
// The entry is read-only.
func (s *Server) version(v version) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.versions[v]
}

// Restore simulates a restore from a backup: the server has exactly these pods, is at
// resourceVersion rv, and breaks all connections. The pods keep their resourceVersions. Restore
// panics if one of them is not a number or is above rv.
func (s *Server) Restore(rv uint64, pods ...*corev1.Pod) {
	s.mu.Lock()
	s.rv, s.oldest, s.history = rv, rv, nil
	clear(s.pages)
	clear(s.objects)
	for _, pod := range pods {
		own, err := resourceversion.Parse(pod.ResourceVersion)
		if err != nil || own > rv {
			panic(fmt.Sprintf("informertest: pod %s restored at resourceVersion %q", pod.Name, pod.ResourceVersion))
		}
		key := pod.Namespace + "/" + pod.Name
		s.objects[key] = &entry{key: key, rv: own, pod: pod.DeepCopy()}
	}
	s.keepVersions()
	s.mu.Unlock()
	s.SetDown(true)
	s.SetDown(false)
}

// ResourceVersion returns the server's resourceVersion.
func (s *Server) ResourceVersion() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return resourceversion.Format(s.rv)
}

// ResourceVersions returns the resourceVersions of all pods, by key.
func (s *Server) ResourceVersions() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	rvs := make(map[string]string, len(s.objects))
	for key, e := range s.objects {
		rvs[key] = e.pod.ResourceVersion
	}
	return rvs
}

// Pod returns a copy of the current state of the pod with the given key, or nil if it does not
// exist.
func (s *Server) Pod(key string) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.objects[key]
	if !ok {
		return nil
	}
	return e.pod.DeepCopy()
}

// Sent returns the number of events that the server has sent to watchers, including bookmarks and
// errors.
func (s *Server) Sent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// state returns the objects of a namespace, or of all namespaces if it is "", sorted by key. The
// caller holds the lock.
func (s *Server) state(namespace string) []*entry {
	items := make([]*entry, 0, len(s.objects))
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if e := s.objects[key]; namespace == "" || e.pod.Namespace == namespace {
			items = append(items, e)
		}
	}
	return items
}
