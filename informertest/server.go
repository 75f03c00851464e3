package informertest

import (
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Server is an API server that knows one resource, pods, and does as a story says. It speaks LIST and WATCH, in JSON and
// protobuf, with kube-apiserver's semantics where nothing else was said. It keeps every change until Compact. All methods
// are safe for concurrent use.
type Server struct {
	http    *http.Server
	pipes   *pipes
	clients []*http.Transport
	serving chan struct{} // closed when the http server has ended

	mu       sync.Mutex
	rv       uint64
	uids     int
	objects  map[string]*entry
	versions map[version]*corev1.Pod // all that there were since the server was compacted, and are
	history  []change                // since compacted, in order
	oldest   uint64                  // changes after this one are in history
	pages    map[string]page
	watchers map[*watcher]struct{}
	rules    map[Op]*rule
	requests []Request
	hammered bool
	sent     int

	keys      []string // of lists in JSON, in their order
	minor     int
	initial   InitialEvents
	bookmarks time.Duration
}

// InitialEvents is what a server makes of sendInitialEvents.
type InitialEvents uint8

const (
	// Honoured: the state, then the bookmark. The zero value.
	Honoured InitialEvents = iota
	// Ignored: as a server does that never heard of it.
	Ignored
	// Refused: 422, as a server does whose feature gate is off.
	Refused
)

// change is one event in the server's history.
type change struct {
	kind string // ADDED, MODIFIED or DELETED
	*entry
}

// version names a version of a pod.
type version struct{ uid, rv string }

func versionOf(p *corev1.Pod) version { return version{string(p.UID), p.ResourceVersion} }

// NewServer starts a server that has no pods, is at resourceVersion 1000 and says that it is Kubernetes 1.37. It listens on
// in-memory connections that only Config's clients reach. Close it.
func NewServer() *Server {
	s := &Server{
		pipes:     newPipes(),
		serving:   make(chan struct{}),
		rv:        1000,
		oldest:    1000,
		objects:   map[string]*entry{},
		versions:  map[version]*corev1.Pod{},
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
		// It ends with http.ErrServerClosed, by Close.
		_ = s.http.Serve(s.pipes)
	}()
	return s
}

// Close ends all connections and returns when the server has ended.
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

// Config reaches the server. Each call makes a client with connections of its own and without a rate limit.
func (s *Server) Config() *rest.Config {
	transport := &http.Transport{DialContext: s.pipes.Dial}
	s.mu.Lock()
	s.clients = append(s.clients, transport)
	s.mu.Unlock()
	return &rest.Config{Host: "http://pods.test", Transport: transport, QPS: -1}
}

// SetVersion makes the server say that it is Kubernetes 1.minor.
func (s *Server) SetVersion(minor int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.minor = minor
}

// SetListKeys sets the order of the keys of lists in JSON: "kind", "apiVersion", "metadata", "items". kube-apiserver sorts them
// in lists of custom resources.
func (s *Server) SetListKeys(keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = keys
}

// SetInitialEvents says what the server makes of sendInitialEvents.
func (s *Server) SetInitialEvents(e InitialEvents) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.initial = e
}

// SetBookmarks sets the period of the bookmarks of watches that are opened from now on; 0 is none.
func (s *Server) SetBookmarks(period time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bookmarks = period
}

// SetDown breaks all connections and refuses new ones, or accepts them again.
func (s *Server) SetDown(down bool) { s.pipes.setDown(down) }

// Dials is how many connections were asked for, refused ones included.
func (s *Server) Dials() int { return s.pipes.dialed() }

// Put creates a pod, or updates the one of that name, and returns its resourceVersion. The server keeps a copy with the
// resourceVersion, and with a uid: a new one for each pod that is created.
func (s *Server) Put(pod *corev1.Pod) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rv++
	kind := "MODIFIED"
	key := pod.Namespace + "/" + pod.Name
	c := pod.DeepCopy()
	if old, ok := s.objects[key]; ok {
		c.UID = old.pod.UID
	} else {
		kind = "ADDED"
		s.uids++
		c.UID = types.UID(fmt.Sprintf("uid-%d", s.uids))
	}
	e := s.entry(c)
	s.objects[key] = e
	s.publish(change{kind, e})
	return c.ResourceVersion
}

// Spoil updates a pod, which must exist, to a version whose metadata can be read and whose spec cannot.
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

// Delete deletes a pod and returns the deletion's resourceVersion. A pod that is not there is a mistake in the story: it
// panics.
func (s *Server) Delete(key string) string { return s.DeleteAs(key, func(*corev1.Pod) {}) }

// DeleteAs deletes a pod in a state that is not the one before.
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

// entry makes a version of an object at the server's resourceVersion. The lock is held.
func (s *Server) entry(pod *corev1.Pod) *entry {
	pod.ResourceVersion = strconv.FormatUint(s.rv, 10)
	return &entry{key: pod.Namespace + "/" + pod.Name, rv: s.rv, pod: pod}
}

// publish adds a change to the history and to every watch. The lock is held.
func (s *Server) publish(c change) {
	s.history = append(s.history, c)
	s.versions[versionOf(c.pod)] = c.pod
	for w := range s.watchers {
		w.send(frame{change: c})
	}
}

// Advance moves the server's resourceVersion on by n without a change of a pod, as changes of other resources do.
func (s *Server) Advance(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rv += n
}

// Compact forgets all changes so far, and all pages of lists under way: who comes with an older resourceVersion or
// continue token is answered 410.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history, s.oldest = nil, s.rv
	clear(s.pages)
	s.keepVersions()
}

// keepVersions forgets the versions that are not there any more. The lock is held.
func (s *Server) keepVersions() {
	s.versions = map[version]*corev1.Pod{} // a map that is cleared keeps its room
	for _, e := range s.objects {
		s.versions[versionOf(e.pod)] = e.pod
	}
}

// version returns a version of a pod, as the server has it, read-only; nil: it is not known any more.
func (s *Server) version(v version) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.versions[v]
}

// Restore sets the server back to resourceVersion rv with these pods, as after the restore of a backup, and breaks all
// connections. The pods' resourceVersions are their own.
func (s *Server) Restore(rv uint64, pods ...*corev1.Pod) {
	s.mu.Lock()
	s.rv, s.oldest, s.history = rv, rv, nil
	clear(s.pages)
	clear(s.objects)
	for _, pod := range pods {
		own, err := strconv.ParseUint(pod.ResourceVersion, 10, 64)
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

// ResourceVersion is the server's.
func (s *Server) ResourceVersion() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strconv.FormatUint(s.rv, 10)
}

// ResourceVersions are those of the pods there are, by key.
func (s *Server) ResourceVersions() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	rvs := make(map[string]string, len(s.objects))
	for key, e := range s.objects {
		rvs[key] = e.pod.ResourceVersion
	}
	return rvs
}

// Pod is a copy of a pod as the server has it now; nil when there is none of that key.
func (s *Server) Pod(key string) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.objects[key]
	if !ok {
		return nil
	}
	return e.pod.DeepCopy()
}

// Sent is how many events were taken by watchers, bookmarks and errors included.
func (s *Server) Sent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// state is the objects in the order of their keys. The lock is held.
func (s *Server) state() []*entry {
	items := make([]*entry, 0, len(s.objects))
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		items = append(items, s.objects[key])
	}
	return items
}
