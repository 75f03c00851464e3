package soak

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// writeLabel is the label with the number of the write that produced an object's version. The test
// needs it because, after a restore, a resourceVersion is used again for other content.
const writeLabel = "write"

// version identifies the content of an object: its UID, its resourceVersion and its write.
type version struct {
	uid   string
	rv    uint64
	write string
}

func versionOf(o metav1.Object) version {
	return version{uid: string(o.GetUID()), rv: parseVersion(o.GetResourceVersion()), write: o.GetLabels()[writeLabel]}
}

func parseVersion(s string) uint64 {
	rv, _ := strconv.ParseUint(s, 10, 64)
	return rv
}

func (v version) number() uint64 { return parseVersion(v.write) }

func (v version) String() string {
	if v == (version{}) {
		return "nothing"
	}
	return fmt.Sprintf("%d (write %s, uid %.4s)", v.rv, v.write, v.uid)
}

// history checks the calls of one handler. For each key, the handler must receive Added, then
// Updated with the previous version as the old one, then Deleted. A version must not be older than
// an earlier one, except after a restore of the server. history is safe for concurrent use.
type history struct {
	name  string
	begun time.Time
	seen  *sightings
	// replicas means that the informer is client-go's and watches through several proxies. The
	// informer forwards the events of several watch caches (docs/reference/proxy-availability.md,
	// Several replicas). Its handler may then receive the deletion of an object that it never
	// received.
	replicas bool
	tap      *tap // records the subject's responses; may be nil

	mu        sync.Mutex
	keys      map[string]*keyHistory
	epoch     int    // number of restores
	lastWrite uint64 // number of the last write before the last restore
	replays   int    // updates that changed nothing
	strays    int    // with replicas: deletions of objects that the handler never received
	problems  []string
}

// keyHistory is the history of one key.
type keyHistory struct {
	held  version // version that the handler received last; zero: none, or deleted
	floor uint64  // newest resourceVersion that the handler has received for the key
	epoch int     // epoch of floor
	told  []string
}

const (
	// maxTold bounds the stored events of a key. The report of a problem shows these events.
	maxTold = 16
	// maxProblems bounds the stored problems of one handler.
	maxProblems = 3
)

func newHistory(name string, begun time.Time, seen *sightings) *history {
	return &history{name: name, begun: begun, seen: seen, keys: map[string]*keyHistory{}}
}

func (h *history) added(key string, v version) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.note(key, "Added %v", v)
	if k.held != (version{}) {
		h.blame(key, "Added, though the handler holds %v", k.held)
	}
	h.advance(key, k, v, k.floor+1)
	h.seen.add(key, v)
}

func (h *history) updated(key string, old, v version) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.note(key, "Updated %v -> %v", old, v)
	if k.held == (version{}) {
		h.blame(key, "Updated, though the handler holds nothing")
	} else if k.held != old {
		h.blame(key, "Updated from %v, though the handler holds %v", old, k.held)
	}
	if old == v {
		h.replays++
	}
	// After a change of the resource's definition, an object can have other content at the same
	// resourceVersion.
	h.advance(key, k, v, k.floor)
	h.seen.add(key, v)
}

func (h *history) deleted(key string, last version) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.note(key, "Deleted %v", last)
	switch {
	case k.held == (version{}) && h.replicas:
		h.strays++
	case k.held == (version{}):
		h.blame(key, "Deleted, though the handler holds nothing")
	case k.held.uid != last.uid:
		h.blame(key, "Deleted as another object than %v", k.held)
	}
	h.advance(key, k, last, k.floor) // client-go passes the version of the deletion
	k.held = version{}
}

// advance records a version, and reports a problem if it is older than the resourceVersion least.
// After a restore, each key may once receive an older version. Between the restore and that
// version, the key may still receive versions from before the restore: from a watch cache that has
// not noticed the restore, or again in a relist.
func (h *history) advance(key string, k *keyHistory, v version, least uint64) {
	older := v.rv < least
	switch {
	case k.epoch == h.epoch && older:
		h.blame(key, "went back: at least %d was to be expected", least)
	case k.epoch != h.epoch && (older || v.number() > h.lastWrite):
		k.epoch, k.floor = h.epoch, 0
	}
	k.held, k.floor = v, max(k.floor, v.rv)
}

func (h *history) note(key, format string, args ...any) *keyHistory {
	k := h.keys[key]
	if k == nil {
		k = &keyHistory{epoch: max(0, h.epoch-1)} // the first event of a key may be from before a restore
		h.keys[key] = k
	}
	k.told = append(k.told, fmt.Sprintf("%8.3fs  %s", time.Since(h.begun).Seconds(), fmt.Sprintf(format, args...)))
	k.told = k.told[max(0, len(k.told)-maxTold):]
	return k
}

func (h *history) blame(key, format string, args ...any) {
	if len(h.problems) < maxProblems {
		problem := fmt.Sprintf("%s: %s: %s\n    %s", h.name, key, fmt.Sprintf(format, args...), strings.Join(h.keys[key].told, "\n    "))
		if h.tap != nil {
			problem += "\n  " + h.tap.told(key)
		}
		h.problems = append(h.problems, problem)
	}
}

// wentBack records a restore of the server. After it, each key may once receive an older version.
// lastWrite is the number of the last write before the restore.
func (h *history) wentBack(lastWrite uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.epoch++
	h.lastWrite = lastWrite
}

// holds returns the objects that exist according to the handler's events.
func (h *history) holds() map[string]version {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make(map[string]version, len(h.keys))
	for key, k := range h.keys {
		if k.held != (version{}) {
			out[key] = k.held
		}
	}
	return out
}

// told returns the last events of a key, for the log.
func (h *history) told(key string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k := h.keys[key]; k != nil {
		return strings.Join(k.told, "\n    ")
	}
	return "never told of"
}

// take returns the problems since the previous call. It also returns how many updates changed
// nothing (replays), and how many deletions were of objects that the handler never received
// (strays).
func (h *history) take() (problems []string, replays, strays int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	problems, replays, strays = h.problems, h.replays, h.strays
	h.problems, h.replays, h.strays = nil, 0, 0
	return problems, replays, strays
}

// sightings counts the distinct versions that the handlers of one subject receive. A version does
// not count if a handler of the subject has already received a newer version of the object.
// Therefore a subject with several informers cannot count more versions than a subject with one
// informer. sightings is safe for concurrent use.
type sightings struct {
	mu       sync.Mutex
	counting bool
	seen     map[sighting]struct{}
	newest   map[string]uint64 // newest resourceVersion that was counted, by key
}

type sighting struct {
	key string
	version
}

func (s *sightings) add(key string, v version) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counting && v.rv >= s.newest[key] {
		s.newest[key] = v.rv
		s.seen[sighting{key, v}] = struct{}{}
	}
}

// count starts to count, from zero.
func (s *sightings) count() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counting, s.seen, s.newest = true, map[sighting]struct{}{}, map[string]uint64{}
}

// stop stops to count, and returns the number of versions.
func (s *sightings) stop() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counting = false
	return len(s.seen)
}

// difference describes how the objects of a subject (held) differ from the wanted objects, for a
// log. It returns "" if they are equal. It describes at most three keys.
func difference(want, held map[string]version, told func(key string) string) string {
	var lines []string
	keys := maps.Clone(want)
	maps.Copy(keys, held)
	n := 0
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if want[key] == held[key] {
			continue
		}
		if n++; n <= 3 {
			lines = append(lines, fmt.Sprintf("%s: holds %v, the server has %v\n    %s", key, held[key], want[key], told(key)))
		}
	}
	if n > 3 {
		lines = append(lines, fmt.Sprintf("and %d more", n-3))
	}
	return strings.Join(lines, "\n  ")
}
