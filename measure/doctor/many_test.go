package doctor

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

var (
	manyEvents = flag.Int("doctor.events", 200_000, "how many events TestManyEvents has")
	manySeed   = flag.Uint64("doctor.seed", 7, "which log TestManyEvents reads: the same seed makes the same")
	crowdSize  = flag.Int("doctor.clients", 20_000, "how many clients that do no harm its log has")
)

// crowd is a log in which a world's events are among the events of many harmless clients. Read
// creates the text, so the log can be larger than memory.
type crowd struct {
	w     *world
	lines []stamped // lines of the world that are not written yet
	left  int       // how many events of the crowd are not written yet
	all   int
	text  bytes.Buffer
}

const crowdNodes = 3000

// newCrowd returns a log of n events of a crowd and the events of a world.
func newCrowd(w *world, n int) *crowd {
	slices.SortStableFunc(w.lines, func(a, b stamped) int { return cmp.Compare(a.at, b.at) })
	return &crowd{w: w, lines: w.lines, left: n, all: n}
}

func (c *crowd) Read(p []byte) (int, error) {
	for c.text.Len() < len(p) {
		if c.left == 0 && len(c.lines) == 0 {
			break
		}
		c.next()
	}
	return c.text.Read(p)
}

// next writes the next event of the crowd, after the world's events up to its time.
func (c *crowd) next() {
	at := days
	if c.left > 0 {
		at = time.Duration(float64(days) * float64(c.all-c.left) / float64(c.all))
	}
	for len(c.lines) > 0 && (c.lines[0].at <= at || c.left == 0) {
		c.text.WriteString(c.lines[0].text)
		c.text.WriteByte('\n')
		c.lines = c.lines[1:]
	}
	if c.left == 0 {
		return
	}
	i := c.all - c.left
	c.left--
	c.w.ids++
	r := request{at: at, took: 4 * time.Millisecond, code: 200, ip: "10.5.0.1"}
	if node := fmt.Sprint("node-", i%crowdNodes); i%2 == 0 {
		r.user, r.agent, r.verb = "system:node:"+node, program("kubelet"), "update"
		r.group, r.resource, r.ns, r.object = "coordination.k8s.io", "leases", "kube-node-lease", node
	} else {
		client := fmt.Sprint("app-", i%*crowdSize)
		r.user, r.agent, r.verb, r.resource, r.ns, r.object = account(client), program(client), "get", "configmaps", "shop", client
		switch dice := c.w.rnd.IntN(20); {
		case dice == 0: // the end of a WATCH of an informer
			r.at, r.took = at-7*time.Minute, 7*time.Minute
			r.verb, r.query, r.object = "watch", "resourceVersion=7&watch=true", ""
		case dice == 1 && i < 2**crowdSize: // the LIST with which an informer starts
			r.verb, r.query, r.object = "list", "resourceVersion=0", ""
		}
	}
	c.text.WriteString(c.w.line(r, evidence.StageResponseComplete, r.at+r.took))
	c.text.WriteByte('\n')
}

// TestManyEvents checks that doctor names exactly the culprits in a large log with ten times more
// clients than it counts separately. With -args -doctor.events 10000000, the log has ten million
// events, about 8 GB.
func TestManyEvents(t *testing.T) {
	w := newWorld(*manySeed)
	w.innocents()
	want := w.culprits()
	log, err := evidence.NewLog("log", newCrowd(w, *manyEvents))
	check.NoError(t, err)
	d := New(Options{Model: plain})
	begun := time.Now()
	for {
		e, err := log.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		check.NoError(t, err)
		d.Add(e)
	}
	read := log.Counts()
	t.Logf("%d events, %d MB, in %s, made meanwhile", read.Events, read.Bytes/1e6, time.Since(begun).Round(time.Second))
	found := map[string]string{}
	for _, f := range d.Report().Findings {
		if f.Kind != FindingRefused {
			found[f.Client.User] = f.Kind
		}
	}
	if !maps.Equal(found, want) {
		t.Errorf("found %v, want %v", found, want)
	}
}

// BenchmarkAdd parses and counts events of level Metadata, and makes predictions. The target is at
// least 150 MB/s, because logs can have gigabytes.
func BenchmarkAdd(b *testing.B) {
	w := newWorld(1)
	w.innocents()
	w.culprits()
	text, err := io.ReadAll(newCrowd(w, 20_000))
	check.NoError(b, err)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		examine(b, Options{Model: plain}, text)
	}
}
