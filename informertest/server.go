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

// Server is an API server for one resource, pods, that behaves as a story says. It serves LIST and
// WATCH in JSON and protobuf, with kube-apiserver's semantics unless a story changes them; for
// single namespaces, and for the namespaces themselves, only LIST. It keeps every change until
// Compact. All methods are safe for concurrent use.
type Server struct {
	http    *http.Server
	pipes   *pipes
	clients []*http.Transport
	serving chan struct{} // closed when the HTTP server has ended

	mu       sync.Mutex
	rv       uint64
	uids     int
	objects  map[string]*entry
	versions map[version]*entry // those since the last compaction, and the current ones
	history  []change           // since compacted, in order
	oldest   uint64             // changes after this one are in history
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

// InitialEvents says how a server handles sendInitialEvents.
type InitialEvents uint8

const (
	// Honoured sends the state and then the bookmark. It is the zero value.
	Honoured InitialEvents = iota
	// Ignored ignores the parameter, like servers that do not know it.
	Ignored
	// Refused answers 422, like servers whose feature gate is off.
	Refused
)

// change is one event in the server's history.
type change struct {
	eventType string // ADDED, MODIFIED or DELETED
	*entry
}

// version identifies a version of a pod.
type version struct{ uid, rv string }

func versionOf(p *corev1.Pod) version { return version{string(p.UID), p.ResourceVersion} }

// NewServer starts a server without pods, at resourceVersion 1000, that reports version 1.37 of
// Kubernetes. It listens on in-memory connections that only Config's clients reach. The caller must
// Close it.
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

// Config returns a config whose clients reach the server. Each call's clients have their own
// connections and no rate limit.
func (s *Server) Config() *rest.Config {
	transport := &http.Transport{DialContext: s.pipes.Dial}
	s.mu.Lock()
	s.clients = append(s.clients, transport)
	s.mu.Unlock()
	return &rest.Config{Host: "http://pods.test", Transport: transport, QPS: -1}
}

// SetVersion makes the server report version 1.minor of Kubernetes.
func (s *Server) SetVersion(minor int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.minor = minor
}

// SetListKeys sets the order of the keys of lists in JSON: "kind", "apiVersion", "metadata",
// "items". kube-apiserver sorts them in lists of custom resources.
func (s *Server) SetListKeys(keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = keys
}

// SetInitialEvents sets how the server handles sendInitialEvents.
func (s *Server) SetInitialEvents(e InitialEvents) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.initial = e
}

// SetBookmarks sets the period of the bookmarks of watches that are opened later; 0 means none.
// They are sent whether or not the resourceVersion has increased; kube-apiserver's increases
// continuously, with other resources. Advance increases it.
func (s *Server) SetBookmarks(period time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bookmarks = period
}

// SetDown breaks all connections and refuses new ones if down is true. Otherwise it accepts
// connections again.
func (s *Server) SetDown(down bool) { s.pipes.setDown(down) }

// Dials returns the number of connections that clients asked for, including refused ones.
func (s *Server) Dials() int { return s.pipes.dialed() }

// Put creates or updates a pod and returns its new resourceVersion. The server keeps a copy with
// that resourceVersion and a uid; each pod that is created gets a new uid.
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

// Spoil updates a pod, which must exist, to a version with metadata that can be decoded and a spec
// that cannot. It returns the new resourceVersion.
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

// Delete deletes a pod and returns the deletion's resourceVersion. It panics if there is no such
// pod.
func (s *Server) Delete(key string) string { return s.DeleteAs(key, func(*corev1.Pod) {}) }

// DeleteAs deletes a pod like Delete, in a final state that differs from the previous one: final
// changes a copy of the pod. final runs while the server is locked and must not call its methods.
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

// entry returns a new version of an object at the server's resourceVersion. The caller holds the
// lock.
func (s *Server) entry(pod *corev1.Pod) *entry {
	pod.ResourceVersion = resourceversion.Format(s.rv)
	return &entry{key: pod.Namespace + "/" + pod.Name, rv: s.rv, pod: pod}
}

// publish adds a change to the history and to every watch that started before it. The caller holds
// the lock.
func (s *Server) publish(c change) {
	s.history = append(s.history, c)
	s.versions[versionOf(c.pod)] = c.entry
	for w := range s.watchers {
		if c.rv > w.from {
			w.send(frame{change: c})
		}
	}
}

// Advance increases the server's resourceVersion by n without a change of a pod, like changes of
// other resources.
func (s *Server) Advance(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rv += n
}

// Compact drops all changes so far and all continue tokens. Requests with an older resourceVersion
// or token receive 410.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history, s.oldest = nil, s.rv
	clear(s.pages)
	s.keepVersions()
}

// keepVersions drops the versions that are not current. The caller holds the lock.
func (s *Server) keepVersions() {
	s.versions = map[version]*entry{} // a map never shrinks
	for _, e := range s.objects {
		s.versions[versionOf(e.pod)] = e
	}
}

// version returns a version of a pod, read-only, or nil if it has been dropped.
func (s *Server) version(v version) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.versions[v]
}

// Restore sets the server back to resourceVersion rv with these pods, as a restored backup does,
// and breaks all connections. The pods keep their resourceVersions.
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

// Pod returns a copy of a pod's current state, or nil if there is none with that key.
func (s *Server) Pod(key string) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.objects[key]
	if !ok {
		return nil
	}
	return e.pod.DeepCopy()
}

// Sent returns the number of events that watchers have received, including bookmarks and errors.
func (s *Server) Sent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// state returns the objects of a namespace, or of all if it is "", in the order of their keys. The
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
