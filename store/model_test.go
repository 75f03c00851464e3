package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/wire"
)

// TestAgainstModel drives a store against plain maps: random puts, deletions,
// relists that end, break or go back in time, several writers whose claims
// overlap, cursors of random pace over a tiny log, snapshots that are verified
// again later, and indexes of all kinds compared by brute force.
func TestAgainstModel(t *testing.T) {
	steps := 2000
	if raceEnabled { // which takes ten times as long
		steps = 500
	}
	for seed := range uint64(30) {
		enc := wire.Protobuf
		if seed%3 == 2 {
			enc = wire.JSON
		}
		t.Run(fmt.Sprintf("%s-%d", enc, seed), func(t *testing.T) { newModel(t, enc, seed).run(steps) })
	}
}

// model is what the store should hold, written as simply as possible.
type model struct {
	t       *testing.T
	rnd     *rand.Rand
	enc     wire.Encoding
	store   *Store
	writers []*modelWriter
	held    map[string]*modelObject
	rv      int // the server's newest
	cursors []*modelCursor
	snaps   []modelSnap
	indexes int
}

type modelObject struct {
	pod    *corev1.Pod
	rv     int
	claims map[*modelWriter]bool // and whether it put, or saw, this version
}

// modelWriter mirrors one Writer: server is what its own source would list.
type modelWriter struct {
	w      *Writer
	ns     string
	server map[string]*corev1.Pod
}

type modelCursor struct {
	c    *Cursor
	pace int
	view map[string]*Object
	last uint64
}

type modelSnap struct {
	sn   *Snapshot
	want map[string]*corev1.Pod
}

func newModel(t *testing.T, enc wire.Encoding, seed uint64) *model {
	m := &model{t: t, rnd: newRand(seed), enc: enc, held: map[string]*modelObject{}, rv: 100}
	logs := []int64{1, 500, 5000, 0}
	cfg := Config{Encoding: enc, LogBytes: logs[m.rnd.IntN(len(logs))], KeepLog: m.rnd.IntN(3) == 0}
	if enc == wire.Protobuf {
		cfg.Decode = decodePod
	} else {
		cfg.Decode = func(raw []byte) (any, error) {
			var meta wire.Meta
			err := wire.ReadMeta(wire.JSON, raw, &meta)
			pod := smallPod(string(meta.Namespace), string(meta.Name), 0, 0, nil, "")
			app, _ := meta.Label("app")
			pod.Labels = map[string]string{"app": string(app)}
			return pod, err
		}
	}
	m.store = newStore(t, cfg)
	scopes := [][]Scope{
		{{}},
		{{Namespace: "a"}, {Namespace: "b"}},
		{{Claim: 0}, {Claim: 63}},
	}[m.rnd.IntN(3)]
	for _, sc := range scopes {
		m.writers = append(m.writers, &modelWriter{w: m.store.Writer(sc), ns: sc.Namespace, server: map[string]*corev1.Pod{}})
	}
	m.addCursor()
	return m
}

func (m *model) run(steps int) {
	for range steps {
		w := m.writers[m.rnd.IntN(len(m.writers))]
		switch n := m.rnd.IntN(100); {
		case n < 50:
			m.event(w)
		case n < 55:
			w.w.Flush()
		case n < 58:
			m.relist(w)
		case n < 85:
			m.read(m.cursors[m.rnd.IntN(len(m.cursors))])
		case n < 87 && len(m.cursors) < 6:
			m.addCursor()
		case n < 88 && len(m.cursors) > 1:
			i := m.rnd.IntN(len(m.cursors))
			m.cursors[i].c.Close()
			m.cursors = slices.Delete(m.cursors, i, i+1)
		case n < 90:
			m.check()
		case n < 91 && len(m.snaps) < 5:
			m.flush()
			m.snaps = append(m.snaps, modelSnap{m.store.Snapshot(), m.pods()})
		case n < 92 && m.indexes < 3:
			m.addIndex()
		}
	}
	m.check()
	for _, s := range m.snaps {
		m.checkSnapshot(s.sn, s.want)
	}
	for _, c := range m.cursors {
		m.finish(c)
	}
	for _, w := range m.writers {
		w.w.Remove()
		for key, o := range m.held {
			delete(o.claims, w)
			if len(o.claims) == 0 {
				delete(m.held, key)
			}
		}
		m.check()
	}
	if mem := m.store.Memory(); m.store.Len() == 0 && (mem.Packed != 0 || mem.Keys != 0 || mem.Raw != 0) {
		m.t.Errorf("an empty store counts %+v", mem)
	}
}

// pod makes a version for one of few keys.
func (m *model) pod(w *modelWriter) *corev1.Pod {
	ns := w.ns
	if ns == "" {
		ns = []string{"a", "b"}[m.rnd.IntN(2)]
	}
	m.rv++
	labels := map[string]string{"app": "app-" + strconv.Itoa(m.rnd.IntN(4))}
	if m.rnd.IntN(4) == 0 {
		labels = nil
	}
	node := ""
	if m.rnd.IntN(3) > 0 {
		node = "node-" + strconv.Itoa(m.rnd.IntN(3))
	}
	return smallPod(ns, "p"+strconv.Itoa(m.rnd.IntN(20)), m.rnd.IntN(2), m.rv, labels, node)
}

func keyOf(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

func (m *model) event(w *modelWriter) {
	pod := m.pod(w)
	if cur := w.server[keyOf(pod)]; cur != nil && m.rnd.IntN(3) == 0 {
		gone := cur.DeepCopy()
		gone.ResourceVersion = strconv.Itoa(m.rv)
		delete(w.server, keyOf(pod))
		deletePod(m.t, w.w, gone)
		m.release(w, keyOf(pod), m.rv, false)
		return
	}
	if m.rnd.IntN(10) == 0 && m.held[keyOf(pod)] != nil { // late: an old version
		old := m.held[keyOf(pod)].pod.DeepCopy()
		old.ResourceVersion = strconv.Itoa(m.held[keyOf(pod)].rv - 1)
		putPod(m.t, w.w, old)
		m.put(w, old, false)
		w.server[keyOf(pod)] = old
		return
	}
	if m.rnd.IntN(10) == 0 && m.held[keyOf(pod)] != nil { // another watch brings the same
		pod = m.held[keyOf(pod)].pod
	}
	w.server[keyOf(pod)] = pod
	putPod(m.t, w.w, pod)
	m.put(w, pod, false)
}

func (m *model) put(w *modelWriter, pod *corev1.Pod, rebase bool) {
	rv, _ := strconv.Atoi(pod.ResourceVersion)
	m.flushOverlapping()
	o := m.held[keyOf(pod)]
	switch {
	case o == nil:
		m.held[keyOf(pod)] = &modelObject{pod, rv, map[*modelWriter]bool{w: true}}
	case rv < o.rv && !rebase:
		if _, claimed := o.claims[w]; !claimed {
			o.claims[w] = false
		}
	case rv == o.rv && pod.UID == o.pod.UID && (!rebase || reflect.DeepEqual(pod, o.pod)):
		o.claims[w] = true
	default:
		for other := range o.claims {
			o.claims[other] = false
		}
		o.pod, o.rv, o.claims[w] = pod, rv, true
	}
}

// release ends w's claim.
func (m *model) release(w *modelWriter, key string, rv int, whatever bool) {
	m.flushOverlapping()
	o := m.held[key]
	if o == nil {
		return
	}
	seen, claimed := o.claims[w]
	if !claimed || !whatever && seen && rv < o.rv {
		return
	}
	delete(o.claims, w)
	if len(o.claims) == 0 {
		delete(m.held, key)
	}
}

// flush makes the store show what the model holds.
func (m *model) flush() {
	for _, w := range m.writers {
		w.w.Flush()
	}
}

// flushOverlapping keeps the order of two writers of the same objects what it is
// in the model; batches of others stay.
func (m *model) flushOverlapping() {
	if len(m.writers) > 1 && m.writers[0].ns == "" {
		m.flush()
	}
}

func (m *model) relist(w *modelWriter) {
	rebase := m.rnd.IntN(3) == 0
	if rebase {
		// The server's store was set back: every object has a lower version.
		m.rv -= m.rnd.IntN(50)
	}
	if m.rnd.IntN(2) == 0 { // missed events
		for range m.rnd.IntN(10) {
			pod := m.pod(w)
			w.server[keyOf(pod)] = pod
		}
		for key := range w.server {
			if m.rnd.IntN(10) == 0 {
				delete(w.server, key)
			}
		}
	}
	w.w.BeginReplace(rebase)
	broken := m.rnd.IntN(4) == 0
	seen := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(w.server)) {
		if broken && m.rnd.IntN(10) == 0 {
			break
		}
		putPod(m.t, w.w, w.server[key])
		m.put(w, w.server[key], rebase)
		seen[key] = true
	}
	if broken {
		w.w.AbortReplace()
		return
	}
	w.w.EndReplace(strconv.Itoa(m.rv))
	for key, o := range maps.Clone(m.held) {
		if _, claimed := o.claims[w]; claimed && !seen[key] && (rebase || o.rv <= m.rv) {
			m.release(w, key, 0, true)
		}
	}
	if got := w.w.ResourceVersion(); got != strconv.Itoa(m.rv) {
		m.t.Fatalf("writer is at %s, want %d", got, m.rv)
	}
}

func (m *model) addIndex() {
	m.indexes++
	var err error
	switch m.indexes {
	case 1:
		err = m.store.AddIndex("app", LabelIndex("app"))
	case 2:
		var p *wire.Path
		if p, err = wire.CompilePath(m.enc, reflect.TypeFor[corev1.Pod](), "spec.nodeName"); err == nil {
			err = m.store.AddIndex("node", FieldIndex(p))
		}
	case 3:
		err = m.store.AddIndex("byapp", FuncIndex(func(v any) ([]string, error) {
			if app := v.(*corev1.Pod).Labels["app"]; app != "" {
				return []string{app}, nil
			}
			return nil, nil
		}))
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *model) pods() map[string]*corev1.Pod {
	pods := map[string]*corev1.Pod{}
	for key, o := range m.held {
		pods[key] = o.pod
	}
	return pods
}

func (m *model) check() {
	m.t.Helper()
	m.flush()
	m.checkSnapshot(m.store.Snapshot(), m.pods())
	if m.store.Len() != len(m.held) {
		m.t.Fatalf("holds %d, want %d", m.store.Len(), len(m.held))
	}
	for key, o := range m.held {
		got, ok := m.store.Get(key)
		if !ok || got.ResourceVersion() != o.pod.ResourceVersion {
			m.t.Fatalf("%s: %v", key, ok)
		}
	}
	m.checkIndexes(m.store.Snapshot())
}

func (m *model) checkSnapshot(sn *Snapshot, want map[string]*corev1.Pod) {
	m.t.Helper()
	var keys []string
	for o := range sn.All() {
		keys = append(keys, o.Key())
		pod := want[o.Key()]
		if pod == nil {
			m.t.Fatalf("holds %s, which should be gone", o.Key())
		}
		raw, err := o.AppendRaw(nil)
		if err != nil || string(raw) != string(encode(m.t, m.enc, pod)) || o.Size() != len(raw) {
			m.t.Fatalf("%s: wrong bytes (%v)", o.Key(), err)
		}
		if o.UID() != string(pod.UID) || o.ResourceVersion() != pod.ResourceVersion || o.Namespace() != pod.Namespace || o.Name() != pod.Name {
			m.t.Fatalf("%s: %s %s %s %s", o.Key(), o.UID(), o.ResourceVersion(), o.Namespace(), o.Name())
		}
	}
	if wanted := slices.Sorted(maps.Keys(want)); !slices.Equal(keys, wanted) || sn.Len() != len(wanted) {
		m.t.Fatalf("holds %v, want %v", keys, wanted)
	}
	var inB []string
	for o := range sn.Namespace("b") {
		inB = append(inB, o.Key())
	}
	keys = slices.DeleteFunc(keys, func(k string) bool { return !strings.HasPrefix(k, "b/") })
	if !slices.Equal(inB, keys) {
		m.t.Fatalf("namespace b: %v, want %v", inB, keys)
	}
}

func (m *model) checkIndexes(sn *Snapshot) {
	m.t.Helper()
	for i, name := range []string{"app", "node", "byapp"}[:m.indexes] {
		want := map[string][]string{}
		for _, key := range slices.Sorted(maps.Keys(m.held)) {
			pod := m.held[key].pod
			value := pod.Labels["app"]
			if i == 1 {
				value = pod.Spec.NodeName
			}
			if value != "" {
				want[value] = append(want[value], key)
			}
		}
		values := slices.Collect(sn.Values(name))
		if !slices.Equal(values, slices.Sorted(maps.Keys(want))) {
			m.t.Fatalf("index %s has values %v, want %v", name, values, want)
		}
		for value, wanted := range want {
			var got []string
			objects, err := sn.By(name, value)
			if err != nil {
				m.t.Fatal(err)
			}
			for o := range objects {
				got = append(got, o.Key())
			}
			if !slices.Equal(got, wanted) {
				m.t.Fatalf("index %s: %s is %v, want %v", name, value, got, wanted)
			}
		}
	}
}

func (m *model) addCursor() {
	m.cursors = append(m.cursors, &modelCursor{c: m.store.Cursor(), pace: 1 + m.rnd.IntN(20), view: map[string]*Object{}})
}

// read takes a few changes and checks that each key's versions chain.
func (m *model) read(c *modelCursor) int {
	m.t.Helper()
	buf := make([]Change, c.pace)
	n := c.c.Next(buf)
	for _, ch := range buf[:n] {
		if !sameVersion(c.view[ch.Key()], ch.Old) {
			m.t.Fatalf("%s: old is not what the cursor saw last", ch.Key())
		}
		if ch.Old == nil && ch.New == nil {
			m.t.Fatal("a change from nothing to nothing")
		}
		if c.c.Revision() > 0 && !ch.Initial && ch.Revision <= c.last {
			m.t.Fatalf("%s: revision %d comes after %d", ch.Key(), ch.Revision, c.last)
		}
		if !ch.Initial {
			c.last = ch.Revision
		}
		if ch.New == nil {
			delete(c.view, ch.Key())
		} else {
			c.view[ch.Key()] = ch.New
		}
	}
	return n
}

func (m *model) finish(c *modelCursor) {
	m.t.Helper()
	for m.read(c) > 0 {
	}
	want := m.pods()
	if len(c.view) != len(want) {
		m.t.Fatalf("cursor sees %d objects, want %d", len(c.view), len(want))
	}
	for key, o := range c.view {
		if want[key] == nil || o.ResourceVersion() != want[key].ResourceVersion {
			m.t.Fatalf("cursor sees %s at %s", key, o.ResourceVersion())
		}
	}
	if c.c.Lag() != 0 || c.c.Pending() != 0 || c.c.Revision() != m.store.Revision() {
		m.t.Fatalf("read to the end, yet lag %d, pending %d, revision %d of %d", c.c.Lag(), c.c.Pending(), c.c.Revision(), m.store.Revision())
	}
}
