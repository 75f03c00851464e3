package store

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// over reports whether both watches have reached the end.
func (m *merged) over() bool {
	head := m.history[len(m.history)-1].rv
	return m.watches[0].is == head && m.watches[1].is == head
}

// list relists a watch: the watch's writer receives the server's state after n changes.
func (m *merged) list(t *testing.T, wt *mergedWatch, n int) {
	rv := m.history[n-1].rv
	m.logf("%d lists at %d", wt.selector, rv)
	wt.w.BeginReplace(false)
	state := m.at(n)
	for _, key := range sortedKeys(state) {
		if v := state[key]; v.in[wt.selector] {
			m.put(t, wt, v)
		}
	}
	wt.w.EndReplace(strconv.Itoa(rv))
	wt.rv, wt.is = rv, rv
	m.open(t, wt)
}

func sortedKeys(state map[string]*mergedVersion) []string {
	var keys []string
	for key := range state {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// open resumes a watch at one of the caches. If no cache can resume it, open lists again.
func (m *merged) open(t *testing.T, wt *mergedWatch) {
	c, broken := m.IntN(2), wt.rv < wt.inexact
	for range 2 {
		if broken { // the watch broke off among coalesced changes, so its state matches no version
			break
		}
		if pos, ok := m.caches[c].resume(wt.rv); ok {
			wt.cache, wt.pos, wt.sent, wt.queue = m.caches[c], pos, wt.rv, nil
			m.logf("%d watches cache %d from %d", wt.selector, c, wt.rv)
			return
		}
		c = 1 - c
	}
	n, at := 1, max(wt.is, wt.rv, wt.inexact)
	wt.inexact = 0
	wt.w.Coalesced("")
	for n < len(m.history) && (m.history[n-1].rv < at || m.chance(70)) {
		n++
	}
	m.list(t, wt, n)
}

// step passes one event to a writer, or breaks its watch off.
func (m *merged) step(t *testing.T, wt *mergedWatch) {
	if m.chance(4) {
		m.flush(wt)
		m.open(t, wt)
		return
	}
	if len(wt.queue) == 0 {
		m.send(wt)
	}
	if len(wt.queue) == 0 {
		return
	}
	e := wt.queue[0]
	wt.queue = wt.queue[1:]
	m.logf("%d gets deleted=%v bookmark=%v %v@%d", wt.selector, e.deleted, e.bookmark, e.v, e.rv)
	if e.inexact == 0 {
		wt.rv = e.rv
	}
	switch {
	case e.inexact > 0:
		wt.inexact = max(wt.inexact, e.inexact)
		wt.w.Coalesced(strconv.Itoa(wt.inexact))
	case e.bookmark:
		m.flush(wt)
	case e.deleted:
		v := *e.v
		v.rv = e.rv
		m.delete(t, wt, &v)
	default:
		m.put(t, wt, e.v)
	}
	if m.chance(40) {
		m.flush(wt)
	}
}

func (m *merged) flush(wt *mergedWatch) {
	if wt.rv >= wt.is && wt.rv >= wt.inexact {
		wt.is = wt.rv
		wt.w.Coalesced("")
		wt.w.Progress(strconv.Itoa(wt.rv))
	}
	wt.w.Flush()
}

// send makes the cache send its next change, or several at the same time.
func (m *merged) send(wt *mergedWatch) {
	c := wt.cache
	if wt.pos == len(c.log) {
		wt.sent = max(wt.sent, m.history[len(m.history)-1].rv)
		wt.queue = append(wt.queue, mergedEvent{bookmark: true, rv: wt.sent})
		return
	}
	to := wt.pos + 1
	if m.chance(15) {
		to = min(wt.pos+2+m.IntN(10), len(c.log))
	}
	one, least := to == wt.pos+1, 0
	for _, f := range c.found { // all changes that a relist found are sent together
		if wt.pos < f.to && f.from < to {
			one, to, least = false, max(to, f.to), max(least, f.rv)
		}
	}
	if one {
		m.tell(wt, c.log[wt.pos])
		wt.pos++
		return
	}
	for _, ch := range c.log[wt.pos:to] {
		least = max(least, ch.rv)
	}
	wt.queue = append(wt.queue, mergedEvent{inexact: least})
	var rest []mergedChange
	for _, ch := range coalesceChanges(c.log[wt.pos:to]) {
		if ch.old != nil && ch.old.in[wt.selector] && (ch.new == nil || !ch.new.in[wt.selector]) {
			wt.queue = append(wt.queue, mergedEvent{deleted: true, v: ch.old, rv: wt.sent})
		} else {
			rest = append(rest, ch)
		}
	}
	for _, ch := range rest {
		m.tell(wt, ch)
	}
	wt.pos = to
}

// coalesceChanges returns one change for each key, in the order of the last changes.
func coalesceChanges(all []mergedChange) []mergedChange {
	var out []mergedChange
	for _, ch := range all {
		if i := slices.IndexFunc(out, func(o mergedChange) bool { return o.key() == ch.key() }); i >= 0 {
			ch.old = out[i].old
			out = slices.Delete(out, i, i+1)
		}
		if ch.old != nil || ch.new != nil {
			out = append(out, ch)
		}
	}
	return out
}

func (m *merged) tell(wt *mergedWatch, ch mergedChange) {
	before := ch.old != nil && ch.old.in[wt.selector]
	after := ch.new != nil && ch.new.in[wt.selector]
	end := func(rv int) {
		wt.queue = append(wt.queue, mergedEvent{deleted: true, v: ch.old, rv: rv})
		wt.sent = max(wt.sent, rv)
	}
	put := func() {
		wt.queue = append(wt.queue, mergedEvent{v: ch.new, rv: ch.new.rv})
		wt.sent = max(wt.sent, ch.new.rv)
	}
	switch {
	case before && after && ch.old.uid != ch.new.uid:
		end(wt.sent)
		put()
	case after:
		put()
	case before && ch.missed:
		end(wt.sent)
	case before:
		end(max(ch.rv, wt.sent))
	}
}

func (m *merged) encode(t *testing.T, v *mergedVersion) (*wire.Meta, []byte) {
	raw := podsim.Encode(wire.Protobuf.String(), smallPod("ns", v.key, v.uid, v.rv, nil, ""))
	var meta wire.Meta
	check.NoError(t, wire.ReadMeta(wire.Protobuf, raw, &meta))
	return &meta, raw
}

func (m *merged) put(t *testing.T, wt *mergedWatch, v *mergedVersion) {
	meta, raw := m.encode(t, v)
	check.NoError(t, wt.w.Put(meta, raw))
}

func (m *merged) delete(t *testing.T, wt *mergedWatch, v *mergedVersion) {
	meta, raw := m.encode(t, v)
	check.NoError(t, wt.w.Delete(meta, raw))
}

// read reads all changes, and checks that no key goes back.
func (m *merged) read() {
	var changes [16]Change
	for n := m.cursor.Next(changes[:]); n > 0; n = m.cursor.Next(changes[:]) {
		for _, ch := range changes[:n] {
			key := ch.Key()
			if ch.New == nil {
				m.logf("    %s@%s is gone", key, ch.Old.ResourceVersion())
				delete(m.held, key)
				continue
			}
			rv, _ := ch.New.ResourceVersionNumber()
			m.logf("    %s@%d", key, rv)
			if rv <= m.floor[key] {
				m.failed = fmt.Sprintf("%s goes back from %d to %d", key, m.floor[key], rv)
			}
			m.held[key], m.floor[key] = ch.New, rv
		}
	}
}

// compare compares the store's objects with the server's.
func (m *merged) compare() {
	want := map[string]uint64{}
	for key, v := range m.at(len(m.history)) {
		if v.in[0] || v.in[1] {
			want["ns/"+key] = uint64(v.rv)
		}
	}
	for key, o := range m.held {
		if rv, _ := o.ResourceVersionNumber(); rv != want[key] {
			m.failed = fmt.Sprintf("%s is held at %d, not %d", key, rv, want[key])
		}
		delete(want, key)
	}
	if len(want) > 0 {
		m.failed = fmt.Sprintf("not held: %v", want)
	}
}
