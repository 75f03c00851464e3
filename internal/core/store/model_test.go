package store

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/core/checks"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/testenv"
)

var modelSeeds = flag.Uint64("seeds", 60, "how many seeds TestAgainstModel runs")

// TestAgainstModel lets several writers follow one server at different paces, and compares the
// store with the reports that the writers received. The store must have an object if and only if
// the last report of at least one source says that the object exists. The stored version must be
// the newest reported one. A source may list an older state than another source, break off, and
// repeat reports. Objects appear in a source, and disappear from it, when their labels change. The
// server changes the bytes that it sends, and is restored. When all sources have caught up, the
// store must have the server's state. The test also checks cursors of random pace over a tiny log,
// snapshots that are read again later, and indexes.
func TestAgainstModel(t *testing.T) {
	testenv.SkipUnderRace(t)
	steps := 2000
	if !checks.Invariants { // make unit runs it with the checks
		steps = 1000
	}
	for seed := range *modelSeeds {
		enc := wire.Protobuf
		if seed%3 == 2 {
			enc = wire.JSON
		}
		t.Run(fmt.Sprintf("%s-%d", enc, seed), func(t *testing.T) { newModel(t, enc, seed).run(steps) })
	}
}

// model computes the state that the store must have, from the reports that the writers received.
type model struct {
	t       *testing.T
	rnd     *rand.Rand
	enc     wire.Encoding
	store   *Store
	server  *modelServer
	writers []*modelWriter
	held    map[string]*corev1.Pod
	dead    map[string]death
	unsure  bool // the server was restored, and not every source has noticed it
	cursors []*modelCursor
	witness *Cursor // the test reads all its changes immediately
	uids    []string
	snaps   []modelSnap
	indexes int
}

// death is a deletion of the object of a key. below is a bound: all lower versions of the key are
// older than the deletion. asOf is the server's version when a source found the deletion.
type death struct {
	below, asOf int
	by          *modelWriter
}

func newModel(t *testing.T, enc wire.Encoding, seed uint64) *model {
	rnd := newRand(seed)
	m := &model{t: t, rnd: rnd, enc: enc, held: map[string]*corev1.Pod{}, dead: map[string]death{}, server: &modelServer{rnd: rnd, rv: 100}}
	for range rnd.IntN(60) {
		m.server.write()
	}
	logs := []int64{1, 500, 5000, 0}
	cfg := Config{Encoding: enc, LogBytes: logs[rnd.IntN(len(logs))], KeepLog: rnd.IntN(3) == 0}
	if enc == wire.Protobuf {
		cfg.Decode = decodePod
	} else {
		cfg.Decode = decodeLabels
	}
	m.store = newStore(t, cfg)
	byLabel := func(label string) func(*corev1.Pod) bool {
		return func(pod *corev1.Pod) bool { return pod.Labels[label] != "" }
	}
	in := func(ns string, sees func(*corev1.Pod) bool) func(*corev1.Pod) bool {
		return func(pod *corev1.Pod) bool { return pod.Namespace == ns && sees(pod) }
	}
	all := func(*corev1.Pod) bool { return true }
	switch rnd.IntN(5) {
	case 0:
		m.addWriter(Scope{}, all)
	case 1:
		m.addWriter(Scope{Namespace: "a"}, in("a", all))
		m.addWriter(Scope{Namespace: "b"}, in("b", all))
	case 2:
		m.addWriter(Scope{Owner: 0}, byLabel("x"))
		m.addWriter(Scope{Owner: 63}, byLabel("y"))
	case 3:
		m.addWriter(Scope{Owner: 0}, byLabel("x"))
		m.addWriter(Scope{Owner: 1}, byLabel("y"))
		m.addWriter(Scope{Owner: 2}, byLabel("app"))
	case 4:
		for _, ns := range []string{"a", "b"} {
			m.addWriter(Scope{Namespace: ns, Owner: 0}, in(ns, byLabel("x")))
			m.addWriter(Scope{Namespace: ns, Owner: 1}, in(ns, byLabel("y")))
		}
	}
	m.witness = m.store.Cursor()
	m.addCursor()
	return m
}

func (m *model) addWriter(sc Scope, sees func(*corev1.Pod) bool) {
	m.writers = append(m.writers, &modelWriter{m: m, w: m.store.Writer(sc), sees: sees, must: true, received: map[string]moment{}})
}

func (m *model) run(steps int) {
	for range steps {
		switch n := m.rnd.IntN(200); {
		case n < 60:
			m.server.write()
		case n < 130:
			m.writers[m.rnd.IntN(len(m.writers))].step()
		case n < 135:
			m.writers[m.rnd.IntN(len(m.writers))].w.Flush()
		case n < 185:
			m.read(m.cursors[m.rnd.IntN(len(m.cursors))])
		case n < 187 && len(m.cursors) < 6:
			m.addCursor()
		case n < 188 && len(m.cursors) > 1:
			i := m.rnd.IntN(len(m.cursors))
			m.cursors[i].c.Close()
			m.cursors = slices.Delete(m.cursors, i, i+1)
		case n < 194:
			m.check()
		case n < 195 && len(m.snaps) < 5 && !m.unsure:
			m.flush()
			m.snaps = append(m.snaps, modelSnap{m.store.Snapshot(), maps.Clone(m.held)})
		case n < 196 && m.indexes < 3:
			m.addIndex()
		case n < 197:
			m.server.format++
		case n < 198 && m.rnd.IntN(8) == 0:
			m.restore()
		case n < 199:
			m.settle()
		}
	}
	m.settle()
	m.relist()
	for _, s := range m.snaps {
		m.checkSnapshot(s.sn, s.want)
	}
	for _, c := range m.cursors {
		m.finish(c)
	}
	for _, w := range m.writers {
		w.w.Remove()
		for key := range w.received {
			m.gone(w, key, m.server.rv, 0)
		}
		m.check()
	}
	if mem := m.store.Memory(); m.store.Len() != 0 || mem.Packed != 0 || mem.Keys != 0 || mem.Raw != 0 {
		m.t.Errorf("%d objects without a writer, and %+v", m.store.Len(), mem)
	}
}

// receive records that a source has an object, as of version asOf.
func (m *model) receive(w *modelWriter, pod *corev1.Pod, asOf int) {
	m.flush() // so that the store applies changes in the model's order
	key, version := keyOf(pod), versionOf(pod)
	if d, ok := m.dead[key]; ok && m.held[key] == nil && version < d.below && !(w.list != nil && d.by == w) {
		// The source lags: it reports an older version of a deleted object, and will also report the
		// deletion. For a list, the model decides at the end of the list.
		if w.list == nil || w.list.rv < d.asOf {
			return
		}
		w.list.isBack = append(w.list.isBack, pod)
		return
	}
	if asOf >= w.received[key].asOf {
		w.received[key] = moment{version, asOf}
	}
	if held := m.held[key]; held == nil || versionOf(held) <= version {
		m.held[key] = pod
	}
}

// gone records that a source no longer has an object, as of version asOf. below is a bound: all
// lower versions of the object are older than its deletion.
func (m *model) gone(w *modelWriter, key string, asOf, below int) {
	m.flush()
	if asOf < w.received[key].asOf {
		return // the report is older than the source's last report about the key
	}
	_, had := w.received[key]
	if pod := m.held[key]; had && pod != nil && below > max(versionOf(pod), m.dead[key].below-1) {
		m.dead[key] = death{below, asOf, w}
	}
	delete(w.received, key)
	for _, other := range m.writers {
		if _, ok := other.received[key]; ok {
			return
		}
	}
	delete(m.held, key)
}

// restore restores the server: all connections break, and every source has to list again.
func (m *model) restore() {
	m.server.restore()
	m.unsure = true
	clear(m.dead)
	for _, w := range m.writers {
		if w.must, w.last = true, nil; w.list != nil {
			w.breakList()
		}
	}
}

// settle lets every source report everything, and then compares the store with the server.
func (m *model) settle() {
	for unsettled := true; unsettled; {
		unsettled = false
		for _, i := range m.rnd.Perm(len(m.writers)) {
			m.writers[i].settle()
		}
		for _, w := range m.writers {
			unsettled = unsettled || w.w.Outdated()
		}
	}
	m.flush()
	truth := map[string]*corev1.Pod{}
	for _, w := range m.writers {
		w.received = map[string]moment{}
		for key, pod := range w.view(m.server.rv) {
			truth[key] = pod
			w.received[key] = moment{versionOf(pod), m.server.rv}
		}
	}
	for key, pod := range truth {
		o, ok := m.store.Get(key)
		if !ok || o.ResourceVersion() != pod.ResourceVersion || o.UID() != string(pod.UID) {
			m.t.Fatalf("%s: at rest the store has %v, the server %s", key, o, pod.ResourceVersion)
		}
		if m.unsure { // then the format of the last report is also unknown
			m.held[key] = m.heldAs(o, pod)
		}
	}
	for key := range m.held {
		if truth[key] == nil {
			delete(m.held, key)
		}
	}
	m.unsure = false
	m.check()
	if got := m.store.ResourceVersion(); got != fmt.Sprint(m.server.rv) {
		m.t.Fatalf("at rest the store is at %s, the server at %d", got, m.server.rv)
	}
}

// heldAs returns pod in the format in which the store has o.
func (m *model) heldAs(o *Object, pod *corev1.Pod) *corev1.Pod {
	format, ok := annotation(o, "format")
	sent := m.server.sent(pod)
	if sent.Annotations["format"] = format; !ok {
		m.t.Fatalf("%s has no format", o.Key())
	}
	return sent
}

// relist changes the format of the server's bytes and makes every source list again. Then each
// stored object must have the new bytes.
func (m *model) relist() {
	m.server.format++
	for _, w := range m.writers {
		w.beginList()
	}
	m.settle()
	for o := range m.store.Snapshot().All() {
		if format, _ := annotation(o, "format"); format != fmt.Sprint(m.server.format) {
			m.t.Fatalf("%s was not healed by a relist", o.Key())
		}
	}
}

// flush makes the store show the model's state.
func (m *model) flush() {
	for _, w := range m.writers {
		w.w.Flush()
		m.observe()
	}
}

func (m *model) check() {
	m.t.Helper()
	m.flush()
	if !m.unsure {
		m.checkSnapshot(m.store.Snapshot(), m.held)
	}
	m.checkIndexes(m.store.Snapshot())
}
