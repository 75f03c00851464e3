package store

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// TestStories runs the stories under testdata: what writers do, and what readers then see.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		st := &story{t: t, writers: map[string]*Writer{}, cursors: map[string]*Cursor{}, snaps: map[string]*Snapshot{}}
		datadriven.RunTest(t, path, st.run)
	})
}

type story struct {
	t       *testing.T
	store   *Store
	writers map[string]*Writer
	cursors map[string]*Cursor
	snaps   map[string]*Snapshot
	out     strings.Builder
}

// run executes one command of a story. The command store creates the store. Each line of the
// commands write and read is a call of a writer or a reader.
func (st *story) run(t *testing.T, d *datadriven.TestData) string {
	st.out.Reset()
	switch d.Cmd {
	case "store":
		cfg := Config{Encoding: wire.Protobuf, Decode: decodePod, KeepLog: d.HasArg("keep")}
		if d.HasArg("log") {
			d.ScanArgs(t, "log", &cfg.LogBytes)
		}
		st.store = newStore(t, cfg)
	case "write":
		for line := range strings.Lines(d.Input) {
			st.write(strings.Fields(line))
		}
	case "read":
		for line := range strings.Lines(d.Input) {
			st.read(strings.Fields(line))
		}
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
	return st.out.String()
}

// write runs one line of a writer:
//
//	WRITER put NS/NAME@RV [label=value…] | delete NS/NAME@RV | flush |
//	begin [rebase] | end RV | abort | progress RV | remove | in NS [OWNER]
func (st *story) write(f []string) {
	w := st.writers[f[0]]
	if w == nil {
		var sc Scope
		if f[1] == "in" {
			sc.Namespace = strings.Trim(f[2], `*`)
			if len(f) > 3 {
				owner, err := strconv.Atoi(f[3])
				check.NoError(st.t, err)
				sc.Owner = uint8(owner)
			}
		}
		w = st.store.Writer(sc)
		st.writers[f[0]] = w
	}
	var err error
	switch f[1] {
	case "in":
	case "put", "delete":
		raw := podsim.Encode(wire.Protobuf.String(), storyPod(f[2:]))
		var m wire.Meta
		check.NoError(st.t, wire.ReadMeta(wire.Protobuf, raw, &m))
		if f[1] == "put" {
			err = w.Put(&m, raw)
		} else {
			err = w.Delete(&m, raw)
		}
	case "flush":
		fmt.Fprintf(&st.out, "%s: %d changed\n", f[0], w.Flush())
	case "begin":
		w.BeginReplace(len(f) > 2)
	case "end":
		w.EndReplace(f[2])
	case "abort":
		w.AbortReplace()
	case "progress":
		w.Progress(f[2])
	case "remove":
		w.Remove()
	default:
		st.t.Fatalf("unknown: %v", f)
	}
	if err != nil {
		fmt.Fprintf(&st.out, "%s: %v\n", f[0], err)
	}
}

func storyPod(f []string) *corev1.Pod {
	key, rv, _ := strings.Cut(f[0], "@")
	ns, name, ok := strings.Cut(key, "/")
	if !ok {
		ns, name = "", key
	}
	pod := smallPod(ns, name, 1, 0, nil, "")
	pod.ResourceVersion = rv
	for _, kv := range f[1:] {
		k, v, _ := strings.Cut(kv, "=")
		if k == "uid" {
			pod.UID = types.UID(v)
			continue
		}
		if pod.Labels == nil {
			pod.Labels = map[string]string{}
		}
		pod.Labels[k] = v
	}
	return pod
}

// read runs one line of a reader:
//
//	cursor C [at REVISION | uid] | next C [N] | close C | state C | snapshot S |
//	list S | held | parts WRITER | outdated WRITER… | index NAME LABEL | by S INDEX VALUE
func (st *story) read(f []string) {
	switch f[0] {
	case "cursor":
		switch {
		case len(f) == 2:
			st.cursors[f[1]] = st.store.Cursor()
			return
		case f[2] == "uid":
			st.cursors[f[1]] = st.store.NotifyingCursor(nil, nil)
			return
		}
		rev, err := strconv.ParseUint(f[3], 10, 64)
		check.NoError(st.t, err)
		if st.cursors[f[1]], err = st.store.CursorAt(rev); err != nil {
			fmt.Fprintln(&st.out, err)
		}
	case "next":
		st.next(f)
	case "close":
		st.cursors[f[1]].Close()
	case "state":
		c := st.cursors[f[1]]
		fmt.Fprintf(&st.out, "%s: revision %d, lag %d, pending %d, synced through %v, closed %v, ready %v\n",
			f[1], c.Revision(), c.Lag(), c.Pending(), c.SyncedThrough(), c.Closed(), len(c.Ready()) > 0)
	case "snapshot":
		st.snaps[f[1]] = st.store.Snapshot()
	case "list":
		st.list(st.snaps[f[1]])
	case "held":
		st.list(st.store.Snapshot())
		fmt.Fprintf(&st.out, "synced %v\n", st.store.Synced())
	case "parts":
		fmt.Fprintf(&st.out, "%d relists in parts\n", st.writers[f[1]].InParts())
	case "outdated":
		for i, name := range f[1:] {
			fmt.Fprintf(&st.out, "%s%s %v", []string{"", ", "}[min(i, 1)], name, st.writers[name].Outdated())
		}
		st.out.WriteByte('\n')
	case "index":
		if err := st.store.AddIndex(f[1], LabelIndex(f[2])); err != nil {
			fmt.Fprintln(&st.out, err)
		}
	case "by":
		objects, err := st.snaps[f[1]].By(f[2], f[3])
		if err != nil {
			fmt.Fprintln(&st.out, err)
		}
		for o := range objects {
			fmt.Fprintf(&st.out, "%s@%s\n", o.Key(), o.ResourceVersion())
		}
	default:
		st.t.Fatalf("unknown: %v", f)
	}
}

func (st *story) list(sn *Snapshot) {
	fmt.Fprintf(&st.out, "revision %d, resourceVersion %q:", sn.Revision(), sn.ResourceVersion())
	for o := range sn.All() {
		fmt.Fprintf(&st.out, " %s@%s", o.Key(), o.ResourceVersion())
	}
	st.out.WriteByte('\n')
}

func (st *story) next(f []string) {
	n := 100
	if len(f) > 2 {
		var err error
		if n, err = strconv.Atoi(f[2]); err != nil {
			st.t.Fatal(err)
		}
	}
	buf := make([]Change, n)
	n = st.cursors[f[1]].Next(buf)
	for _, ch := range buf[:n] {
		version := func(o *Object) string {
			if o == nil {
				return "-"
			}
			return o.ResourceVersion()
		}
		fmt.Fprintf(&st.out, "%d %s: %s → %s", ch.Revision, ch.Key(), version(ch.Old), version(ch.New))
		if ch.Initial {
			st.out.WriteString(", initial")
		}
		if ch.Awaited && !ch.Initial {
			st.out.WriteString(", awaited")
		}
		if ch.Coalesced {
			st.out.WriteString(", coalesced")
		}
		if ch.Missed {
			st.out.WriteString(", missed")
		}
		st.out.WriteByte('\n')
	}
	if n == 0 {
		st.out.WriteString("nothing\n")
	}
}
