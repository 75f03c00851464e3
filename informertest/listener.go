package informertest

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/core/resourceversion"
)

// verb names the handler function that an informer called.
type verb string

const (
	added   verb = "added"
	updated verb = "updated"
	deleted verb = "deleted"
)

type event struct {
	verb
	key, uid string
	old, rv  string
	initial  bool
	at       time.Time
	resynced bool // an update whose old and new versions are the same

	oldContent, content digest
}

// digest is a hash of a pod's protobuf encoding, which does not contain the pod's TypeMeta. It is 0
// in a listener that records no events.
type digest uint64

var digestSeed = maphash.MakeSeed()

func digestOf(raw []byte) digest { return digest(maphash.Bytes(digestSeed, raw)) }

// told is the version of an object that a handler received last.
type told struct {
	version
	content digest
}

func (e event) String() string {
	switch {
	case e.verb == updated:
		return fmt.Sprintf("%s %s %s→%s", e.verb, e.key, e.old, e.rv)
	case e.initial:
		return fmt.Sprintf("%s %s %s (initial)", e.verb, e.key, e.rv)
	}
	return fmt.Sprintf("%s %s %s", e.verb, e.key, e.rv)
}

// listener is a handler that records its calls and checks each call against the previous calls. An
// added object must be new to the handler; an updated or deleted object must be known to it. No
// version may be older than the version of the object that the handler received last. The old
// version of an update must be the version that the handler received last, with the same content.
// Each new version must equal the server's.
type listener struct {
	Registration
	s  *storyRun
	of *storyInformer

	mu            sync.Mutex
	events        []event
	current       map[string]told // by key
	gate          chan struct{}   // if not nil, calls block until it is closed
	onCall        func(event)     // if not nil, called in each call, without the lock
	keepsNoEvents bool            // for stories that measure memory
	allowOlder    bool            // older versions are allowed
	calls         int
}

func newListener(of *storyInformer) *listener {
	return &listener{s: of.s, of: of, current: map[string]told{}}
}

// listen registers a new listener with the informer. The functions in more configure the listener
// first.
func (i *storyInformer) listen(o HandlerOptions, more ...func(*listener)) *listener {
	l := newListener(i)
	for _, m := range more {
		m(l)
	}
	i.listeners = append(i.listeners, l)
	l.Registration = i.handle(l.handler(), o)
	return l
}

// handle registers a handler, and aborts the story if that fails.
func (i *storyInformer) handle(h Handler, o HandlerOptions) Registration {
	reg, err := i.Handle(h, o)
	if err != nil {
		i.s.failf("add a handler: %v", err)
	}
	return reg
}

// held makes the calls of a listener block until letGo.
func held(l *listener) { l.gate = make(chan struct{}) }

// forgetful makes a listener record no events.
func forgetful(l *listener) { l.keepsNoEvents = true }

// calling returns a function that makes a listener call f in each of its calls.
func calling(f func(event)) func(*listener) { return func(l *listener) { l.onCall = f } }

// hold blocks further calls until letGo.
func (l *listener) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gate = make(chan struct{})
}

// mayGoBack makes the listener accept versions that are older than those before. Use it if the
// server itself went back in time.
func (l *listener) mayGoBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.allowOlder = true
}

func (l *listener) letGo() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gate != nil {
		close(l.gate)
		l.gate = nil
	}
}

func (l *listener) handler() Handler {
	return Handler{
		Added: func(p *corev1.Pod, initial bool) {
			l.take(event{verb: added, initial: initial}, nil, p)
		},
		Updated: func(old, p *corev1.Pod) {
			l.take(event{verb: updated, resynced: old.ResourceVersion == p.ResourceVersion && old.UID == p.UID}, old, p)
		},
		Deleted: func(p *corev1.Pod) { l.take(event{verb: deleted}, nil, p) },
	}
}

// take processes one call of the handler. It compares the object with the server's version. If the
// listener's gate is set, it then blocks until letGo. It then checks and records the event, and
// calls onCall.
func (l *listener) take(e event, old, p *corev1.Pod) {
	if p == nil {
		l.s.errorf("%s without an object", e.verb)
		return
	}
	e.key, e.uid, e.rv, e.at = p.Namespace+"/"+p.Name, string(p.UID), p.ResourceVersion, time.Now()
	if old != nil {
		e.old = old.ResourceVersion
	}
	if !l.keepsNoEvents {
		l.compare(&e, old, p)
	}
	l.mu.Lock()
	l.calls++
	gate, onCall := l.gate, l.onCall
	l.mu.Unlock()
	if gate != nil {
		<-gate
	}
	l.mu.Lock()
	l.check(e)
	if !l.keepsNoEvents {
		l.events = append(l.events, e)
	}
	l.mu.Unlock()
	if onCall != nil {
		onCall(e)
	}
}

// compare checks that an object equals the server's version, and sets the digests of e. It compares
// the encodings first, because a comparison by reflection is slow.
func (l *listener) compare(e *event, old, p *corev1.Pod) {
	raw := asProtobuf.encoded(p)
	e.content, e.oldContent = digestOf(raw), digestOf(raw)
	if old != nil && old != p {
		e.oldContent = digestOf(asProtobuf.encoded(old))
	}
	served := l.s.server.version(versionOf(p))
	if served == nil {
		return // the server has dropped this version
	}
	if l.of.transform == nil && bytes.Equal(raw, served.bytes(asProtobuf)) {
		return
	}
	if want := l.of.transformed(served.pod); !sameContent(p, want) {
		l.s.errorf("received %v, which differs from the server's object: %+v, want %+v", *e, *p, *want)
	}
}

// check compares a call with l.current, which has the last version of each object that the handler
// knows. It then updates l.current. The caller holds the lock.
func (l *listener) check(e event) {
	was, had := l.current[e.key]
	switch {
	case e.verb == added && had:
		l.s.errorf("received a new object twice: %v; it received %s before", e, was.rv)
	case e.verb != added && !had:
		l.s.errorf("received a change of an object that it has not received: %v", e)
	case e.verb == updated && e.old != was.rv:
		l.s.errorf("received %v, but the last version that it received is %s", e, was.rv)
	case e.verb == updated && e.oldContent != was.content:
		l.s.errorf("received %v, but the old version %s differs from the version that it received", e, e.old)
	case e.verb == deleted && e.rv == was.rv && e.uid == was.uid && e.content != was.content:
		l.s.errorf("received %v, which differs from the version that it received", e)
	case had && !l.allowOlder && was.uid == e.uid && resourceversion.Number(e.rv) < resourceversion.Number(was.rv):
		l.s.errorf("received %v after %s: back in time", e, was.rv)
	case e.verb == deleted && was.uid != e.uid:
		l.s.errorf("received %v with uid %s, but the uid was %s", e, e.uid, was.uid)
	}
	if e.verb == deleted {
		delete(l.current, e.key)
	} else {
		l.current[e.key] = told{version{e.uid, e.rv}, e.content}
	}
}

// view returns the resourceVersion of each object that the handler knows, by key.
func (l *listener) view() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	rvs := make(map[string]string, len(l.current))
	for key, v := range l.current {
		rvs[key] = v.rv
	}
	return rvs
}

// takeEvents returns the calls recorded since the previous takeEvents.
func (l *listener) takeEvents() []event {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.events
	l.events = nil
	return all
}

// gets checks that the listener has received n changes since the last takeEvents. It ignores
// resyncs.
func (l *listener) gets(n int) { l.isTold(changes(l.takeEvents()), n) }

// getsOnly checks that the listener has received n changes since the last takeEvents, and no
// resync.
func (l *listener) getsOnly(n int) { l.isTold(l.takeEvents(), n) }

func (l *listener) isTold(events []event, n int) {
	if len(events) != n {
		l.s.failf("%d calls, want %d; the first are %v", len(events), n, events[:min(len(events), 5)])
	}
}

// syncs waits until the listener has synced and its state equals the server's.
func (l *listener) syncs(within time.Duration) {
	l.s.eventually(within, "HasSynced of the handler", l.HasSynced)
	l.of.current(time.Second)
}

// notSynced checks that neither the listener nor its informer has synced. The argument how is the
// text of the fault: it names the event that was mistaken for a sync.
func (l *listener) notSynced(how string) {
	if l.of.HasSynced() || l.HasSynced() {
		l.s.errorf("%s", how)
	}
}

// count returns the number of calls that have started, including blocked ones.
func (l *listener) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

// knows reports whether the objects that the handler knows equal the server's.
func (l *listener) knows(s *Server) bool { return maps.Equal(l.view(), s.ResourceVersions()) }

// changes returns the events that are not resyncs. It changes events.
func changes(events []event) []event {
	return slices.DeleteFunc(events, func(e event) bool { return e.resynced })
}
