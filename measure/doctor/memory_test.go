package doctor

import (
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/testenv"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

// bound is the memory limit that docs/howto/doctor.md states, in bytes.
const bound = 150_000_000

// TestMemory checks that 450,000 events of 300,000 clients use no more memory than bound. All
// clients have names of the maximum length. Some of them LIST in every way and in bursts, over
// days, and have open WATCHes.
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
		e.Received = e.Staged - 4e6 // so that each LIST had seats for a while
		e.User, e.Object.Resource, e.AuditID, e.Verb, e.Stage = user, resource, id, verb, stage
		d.Add(e)
	}
	// Each pass adds requests of the maximum numbers of clients and resources that are counted
	// separately. Each client LISTs all objects and some objects of each resource.
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
	// Give each pattern the maximum number of bursts.
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

// TestMemoryAtPeaks checks that the predicted memory of simultaneous answers does not depend on the
// length of the log.
func TestMemoryAtPeaks(t *testing.T) {
	burst := someone("burst", "list", "pods")
	burst.at, burst.took = 10*time.Second, 500*time.Millisecond
	held := func(later time.Duration) float64 {
		w := newWorld(1)
		r := someone("other", "get", "pods")
		w.do(r)
		w.each(200, 0, burst, nil)
		r.at = later
		w.each(3, time.Second, r, nil) // three, because a single event might count as misdated
		for _, c := range examine(t, plainly(), w.log()).Clients {
			if c.User == burst.user {
				return c.HeldBytes
			}
		}
		return 0
	}
	alone, late := held(11*time.Second), held(71*time.Hour)
	if want := 100 * 0.5 * 1_000_000; alone != want || late != want {
		t.Errorf("%v bytes alone, %v in three days, want %v", alone, late, want)
	}
}

// TestPeak checks that requests that run in the same second are added up, and that the largest sum
// is stored. The order of the requests must not matter.
func TestPeak(t *testing.T) {
	const second = int64(1e6)
	for _, c := range []struct {
		what string
		add  func(p *peak)
		want uint32
	}{
		{"nothing", func(*peak) {}, 0},
		{"a part of a second", func(p *peak) { p.add(10*second+3e5, 10*second+7e5) }, 400},
		{"two seconds", func(p *peak) { p.add(10*second+8e5, 12*second) }, 1000},
		{"at once", func(p *peak) {
			p.add(10*second, 11*second)
			p.add(8*second, 11*second)
			p.add(9*second, 10*second)
		}, 2000},
		{"one after the other", func(p *peak) {
			for i := range int64(1000) {
				p.add(i*second, (i+1)*second)
			}
		}, 1000},
		{"far apart", func(p *peak) {
			p.add(5*second, 6*second)
			p.add((5+peakSeconds)*second, (6+peakSeconds)*second)
			p.add((5+50*peakSeconds)*second, (6+50*peakSeconds)*second)
		}, 1000},
		{"longer than what is kept", func(p *peak) {
			p.add(0, 300*second)
			p.add(0, 300*second)
		}, 2000},
		{"a log of an earlier time", func(p *peak) {
			p.add(5000*second, 5001*second)
			for range 3 {
				p.add(4000*second, 4001*second)
			}
		}, 3000},
	} {
		var p peak
		if c.add(&p); p.most != c.want {
			t.Errorf("%s: %d ms in a second, want %d", c.what, p.most, c.want)
		}
	}
}

// TestBusiest checks that the clients whose LISTs had seats longest come first, and that at most
// maxBusy clients are named. It also checks the number of running LISTs of each client.
func TestBusiest(t *testing.T) {
	w := newWorld(1)
	first := someone("first", "get", "pods")
	first.took = time.Millisecond // this request starts the log
	w.do(first)
	for i, took := range []time.Duration{2, 3, 4, 5, 6, 7} {
		r := someone(string(rune('a'+i)), "list", "pods")
		r.took = took * time.Second
		w.each(3, 0, r, nil) // three LISTs at the same time
	}
	busiest := examine(t, Options{}, w.log()).Rate.Busiest
	if len(busiest) != maxBusy {
		t.Fatalf("%d clients", len(busiest))
	}
	for i, b := range busiest {
		sum := 0.0
		for _, n := range b.UnderWay {
			sum += n
		}
		if want := float64(3 * (7 - i)); b.User != account(string(rune('f'-i))) || sum < want-0.1 || sum > want+0.1 {
			t.Errorf("%s had %v, want %v", b.User, sum, want)
		}
	}
}
