package store

import (
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// modelWriter is a source and its writer. It lists and watches the server's objects that match its
// namespace and label.
type modelWriter struct {
	m            *model
	w            *Writer
	sees         func(*corev1.Pod) bool
	at           int        // the version up to which the watch has reported
	progressedTo int        // the last progress that it reported
	list         *modelList // the running list, or nil
	// high is the newest version in the lists that broke off after the last complete list.
	high int
	last func() // repeats the last event
	// owes is set when a list starts after another source has found that the server went back. It is
	// cleared when a list is complete. Until then the source must list again.
	owes     bool
	must     bool              // it has not listed yet, or not after a restore of the server
	listed   bool              // at least one list was complete
	received map[string]moment // the keys that exist according to this source's reports
}

// moment is the last report about a key: the version of the object, and the server's version at the
// time of the report.
type moment struct{ version, asOf int }

// modelList is a list that is being read.
type modelList struct {
	rv    int
	items []*corev1.Pod
	high  int // the newest version that the writer has put
	seen  map[string]bool
	// staged contains the items of a relist that differ from the store's. It is nil if the store does
	// not stage them.
	staged []*corev1.Pod
	isBack []*corev1.Pod // older than deletions that other sources reported; see endList
}

func (w *modelWriter) see(pod *corev1.Pod) bool { return pod != nil && w.sees(pod) }

// view returns the source's state at version rv.
func (w *modelWriter) view(rv int) map[string]*corev1.Pod {
	state := w.m.server.at(rv)
	maps.DeleteFunc(state, func(_ string, pod *corev1.Pod) bool { return !w.sees(pod) })
	return state
}

// step performs a random action that a source and its reflector may perform.
func (w *modelWriter) step() {
	n := w.m.rnd.IntN(100)
	beyondServer := w.at > w.m.server.rv
	switch {
	case w.list != nil && n < 10:
		w.breakList()
	case w.list != nil:
		w.readList()
	case w.owes, w.must && (beyondServer || n < 30), beyondServer, n < 4:
		w.beginList()
	case n < 8 && w.last != nil:
		w.last()
	case w.progressedTo > 0:
		w.watch()
	}
}

// beginList starts a list at a random version that is not lower than the versions that the source
// has reported. If the server's own version is lower, the server was restored, and the list begins
// with BeginReplace(true).
func (w *modelWriter) beginList() {
	s := w.m.server
	back := s.rv < max(w.progressedTo, w.at, w.high)
	rv := s.rv
	if from := max(w.at, w.progressedTo); !back && !w.must {
		rv = from + w.m.rnd.IntN(s.rv-from+1)
	}
	view := w.view(rv)
	w.list = &modelList{rv: rv, seen: map[string]bool{}}
	for _, key := range slices.Sorted(maps.Keys(view)) {
		w.list.items = append(w.list.items, view[key])
	}
	w.last = nil
	w.owes = w.owes || w.w.Outdated()
	synced := w.w.synced
	w.w.BeginReplace(back)
	if synced {
		w.list.staged = []*corev1.Pod{}
	}
	w.m.observe()
}

func (w *modelWriter) readList() {
	l := w.list
	if len(l.items) == 0 {
		w.endList()
		return
	}
	pod := w.m.server.sent(l.items[0])
	l.items, l.seen[keyOf(pod)] = l.items[1:], true
	l.high = max(l.high, versionOf(pod))
	putPod(w.m.t, w.w, pod)
	if w.w.relist == nil {
		w.receiveStaged() // if the relist exceeds the bound
	}
	if l.staged != nil && w.differs(pod) {
		l.staged = append(l.staged, pod)
		return
	}
	w.m.receive(w, pod, l.rv)
	if !w.listed {
		w.m.await(keyOf(pod))
	}
}

// differs reports whether a listed object replaces the stored version.
func (w *modelWriter) differs(pod *corev1.Pod) bool {
	held := w.m.held[keyOf(pod)]
	if held == nil {
		d, ok := w.m.dead[keyOf(pod)]
		return !ok || d.by == w || versionOf(pod) >= d.below
	}
	same := versionOf(held) == versionOf(pod) && held.UID == pod.UID
	return versionOf(held) < versionOf(pod) || same && held.Annotations["format"] != pod.Annotations["format"]
}

// receiveStaged records the staged items of the list, because the store now has them.
func (w *modelWriter) receiveStaged() {
	staged := w.list.staged
	w.list.staged = nil
	for _, pod := range staged {
		w.m.receive(w, pod, w.list.rv)
	}
}

func (w *modelWriter) endList() {
	l := w.list
	w.w.EndReplace(strconv.Itoa(l.rv))
	w.m.observe()
	w.receiveStaged()
	for key, last := range w.received {
		if !l.seen[key] && last.version <= l.rv {
			below := 0
			if pod := w.m.held[key]; pod != nil && last.version == versionOf(pod) {
				below = versionOf(pod) + 1
			}
			w.m.gone(w, key, l.rv, below)
		}
	}
	for _, pod := range l.isBack {
		w.list = nil
		delete(w.m.dead, keyOf(pod))
		w.m.receive(w, pod, l.rv)
	}
	w.list, w.high, w.must, w.owes, w.listed, w.at, w.progressedTo = nil, 0, false, false, true, l.rv, l.rv
}

func (w *modelWriter) breakList() {
	w.w.AbortReplace()
	w.m.observe()
	w.high = max(w.high, w.list.high)
	w.list = nil
}

// watch reports the next change that concerns the source. If there is none, it reports a bookmark.
func (w *modelWriter) watch() {
	for _, c := range w.m.server.past {
		if c.rv > w.at && (w.see(c.was) || w.see(c.is)) {
			w.at = c.rv
			w.last = func() { w.event(c) }
			w.event(c)
			if w.m.rnd.IntN(4) > 0 {
				w.progress()
			}
			return
		}
	}
	if w.m.rnd.IntN(3) == 0 {
		w.at = max(w.at, w.m.server.rv) // a bookmark
		w.progress()
	}
}

func (w *modelWriter) progress() {
	w.progressedTo = w.at
	w.w.Progress(strconv.Itoa(w.at))
}

func (w *modelWriter) event(c serverChange) {
	if w.see(c.is) {
		pod := w.m.server.sent(c.is)
		putPod(w.m.t, w.w, pod)
		w.m.receive(w, pod, c.rv)
		return
	}
	pod := w.m.server.sent(c.was)
	pod.ResourceVersion = strconv.Itoa(c.rv)
	deletePod(w.m.t, w.w, pod)
	w.m.gone(w, keyOf(pod), c.rv, c.rv)
}

// settle continues until the source has reported all changes.
func (w *modelWriter) settle() {
	if w.list == nil && (w.must || w.owes || w.w.Outdated() || w.at > w.m.server.rv) {
		w.beginList()
	}
	for w.list != nil {
		w.readList()
	}
	for w.progressedTo < w.m.server.rv {
		w.watch()
	}
}
