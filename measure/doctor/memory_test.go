package doctor

import (
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/testenv"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

// bound is what docs/doctor.md promises.
const bound = 150_000_000

// 450,000 events of 300,000 clients, of which some LIST in each way, in bursts, for days, and hold
// WATCHes, with the longest names that are kept, stay within what is promised.
func TestMemory(t *testing.T) {
	before := testenv.LiveBytes()
	d := New(Options{})
	long := strings.Repeat("x", maxName)
	list, complete, started := []byte("list"), []byte(evidence.StageResponseComplete), []byte(evidence.StageResponseStarted)
	e := &evidence.Event{Object: evidence.Object{Group: []byte(long), Version: []byte(long), Subresource: []byte(long)}, Agent: []byte(long)}
	var user, resource, id []byte
	add := func(client, kind int, verb, stage []byte) {
		user = append(strconv.AppendInt(user[:0], int64(client), 10), long...)[:maxName]
		resource = append(strconv.AppendInt(resource[:0], int64(kind), 10), long...)[:maxName]
		id = strconv.AppendInt(id[:0], e.Staged, 10)
		e.Received = e.Staged - 4e6 // so that LISTs have seats
		e.User, e.Object.Resource, e.AuditID, e.Verb, e.Stage = user, resource, id, verb, stage
		d.Add(e)
	}
	// Two passes over as many clients and resources as are counted separately, each LISTed whole and
	// in part.
	for pass := range 2 {
		for i := range 8 * maxClients {
			e.Staged += 5e6
			for _, namespace := range []string{"", "a"} {
				e.Object.Namespace = []byte(namespace)
				add(i%maxClients, i/maxClients, list, complete)
			}
			e.Object.Name = id
			for _, verb := range []string{"get", "update"} {
				add(i%maxClients, i/maxClients, []byte(verb), complete)
			}
			e.Object.Name = nil
			add(i%maxClients, i/maxClients, []byte("watch"), complete)
			add(i%maxClients, i/maxClients, []byte("watch"), started)
		}
		t.Logf("pass %d: %d MB", pass, (testenv.LiveBytes()-before)/1e6)
	}
	// As many bursts as are kept.
	for _, c := range d.clients.least {
		for _, u := range c.usages {
			for _, p := range []*pattern{u.whole, u.part} {
				for i := range p.bursts {
					p.bursts[i].kept = slices.Grow([]burst{}, maxBursts)
				}
			}
		}
	}
	full := testenv.LiveBytes() - before
	for i := range 450_000 - 2*8*maxClients*6 {
		e.Staged += 1e5
		stage, verb := complete, []byte("get")
		if i%4 == 0 {
			stage, verb = started, []byte("watch")
		}
		add(maxClients+i%300_000, i%11, verb, stage)
	}
	after := testenv.LiveBytes() - before
	t.Logf("%d MB, then %d MB", full/1e6, after/1e6)
	if n := len(d.clients.least); max(full, after) > bound || n != maxClients {
		t.Errorf("%d clients hold %d bytes, then %d", n, full, after)
	}
	runtime.KeepAlive(d)
}
