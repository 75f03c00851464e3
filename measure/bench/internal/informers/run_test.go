package informers

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
	"github.com/weirproject/weir/internal/testing/populations"
	"github.com/weirproject/weir/internal/tools/process"
)

const (
	tinyPods    = 60  // the number of the server's pods
	tinyObjects = 200 // the number of the stub's objects
)

// TestVerbs runs every verb with few objects, on an embedded server and with all child processes.
// It checks that the figures exist and are possible, but not that they are good.
func TestVerbs(t *testing.T) {
	server, err := process.StartServer(t.Context(), process.ServerSpec{Pods: tinyPods, Seed: 1})
	check.NoError(t, err)
	t.Cleanup(func() { server.Close() })
	check.NoError(t, Check(t.Context(), server.Config()))
	o := Options{
		Config: server.Config(), Server: server.URL, Runs: 1, Objects: tinyObjects, Duration: 300 * time.Millisecond, Relists: 2,
		Period: time.Second, Progress: io.Discard,
	}
	run := func(name string, test func(t *testing.T, o Options)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, o)
		})
	}
	for _, v := range Verbs() {
		run(v.Name, func(t *testing.T, o Options) { expect(t, v, o, v.Name, tinyHeld(v)) })
		run(v.Name+" dropin", func(t *testing.T, o Options) {
			o.DropIn = true
			expect(t, v, o, v.Name+dropInSuffix, tinyHeld(v))
		})
		if v.takes(TakesUnstructured) {
			run(v.Name+" unstructured", func(t *testing.T, o Options) { expectUnstructured(t, v, o) })
		}
	}
	for name, test := range flagTests {
		run(name, func(t *testing.T, o Options) {
			v, _ := verbNamed(test.verb)
			test.set(&o)
			r := expect(t, v, o, test.result, tinyHeld(v))
			if !slices.Equal(r.Flags, test.flags) {
				t.Errorf("flags %q, want %q", r.Flags, test.flags)
			}
			for side, figures := range map[string]Figures{"weir": r.Weir, "client-go": r.ClientGo} {
				for _, key := range test.figures {
					if figures[key] <= 0 {
						t.Errorf("%s has %s %v", side, key, figures[key])
					}
				}
			}
		})
	}
}

// flagTests are verbs with flags that their results name.
var flagTests = map[string]struct {
	verb    string
	set     func(o *Options)
	result  string // its name
	flags   []string
	figures []string // that both sides have because of the flags
}{
	"sync transformed and unwrapped": {
		"sync", func(o *Options) { o.DropIn, o.Transform, o.Unwrapped = true, true, true }, "sync-dropin", []string{"--transform", "--unwrapped"}, nil,
	},
	"watch of custom resources": {"watch", func(o *Options) { o.DropIn, o.Custom = true, true }, "watch-dropin", []string{"--custom"}, nil},
	"watch of unstructured custom resources": {
		"watch", func(o *Options) { o.Custom, o.Unstructured = true, true }, "watch-unstructured", []string{"--custom"}, nil,
	},
	"watch of several changes": {
		"watch", func(o *Options) { o.Changes, o.Handlers = []string{ChangeStatus, ChangeVersion}, 3 }, "watch", []string{"--handlers 3", "--change status,version"},
		[]string{"statusEventsPerSecond", "statusCPUMicrosPerEvent", "versionEventsPerSecond", "versionCPUMicrosPerEvent"},
	},
	"watch of rollouts": {
		"watch", func(o *Options) { o.Changes, o.DropIn, o.Handlers = []string{ChangeLifecycle}, true, 2 }, "watch-dropin",
		[]string{"--handlers 2", "--change lifecycle"}, []string{"rolloutSeconds", "rolloutCPUSeconds"},
	},
}

// tinyHeld returns the number of objects that a verb's informers store.
func tinyHeld(v Verb) float64 {
	if v.Stub {
		return tinyObjects
	}
	return tinyPods
}

func expectUnstructured(t *testing.T, v Verb, o Options) {
	o.Unstructured = true
	if v.Name != "watch" { // the script of weir bench tests it
		expect(t, v, o, v.Name+unstructuredSuffix, tinyHeld(v))
	}
	if v.Name == "watch" || !v.Stub { // these verbs take longest, and use the same stub
		o.DropIn = true
		expect(t, v, o, v.Name+dropInSuffix+unstructuredSuffix, tinyHeld(v))
	}
}

// expect runs a verb and checks that the result is complete.
func expect(t *testing.T, v Verb, o Options, name string, held float64) Result {
	t.Helper()
	r, err := Run(t.Context(), v, o)
	check.NoError(t, err)
	if r.Name != name || r.Runs != 1 {
		t.Errorf("name %q and %d runs, want %q and 1", r.Name, r.Runs, name)
	}
	if o.DropIn {
		v = v.DropIn()
	}
	for side, figures := range map[string]Figures{"weir": r.Weir, "client-go": r.ClientGo} {
		for _, f := range v.figures {
			if _, ok := figures[f.Key]; !ok {
				t.Errorf("%s has no %s", side, f.Key)
			}
		}
		check.Equal(t, figures["objects"], held, "%s holds objects", side)
	}
	check.Equal(t, len(r.Modes), len(v.modes), "modes of client-go")
	if v.Name == "sync" && r.Floor["wireBytes"] <= 0 {
		t.Errorf("the floor has read nothing: %v", r.Floor)
	}
	if v.Name == "relist" && r.Weir["events"] != 0 {
		t.Errorf("weir told %v events per relist although nothing had changed", r.Weir["events"])
	}
	check.Equal(t, r.Weir["goroutinesLeft"], 0, "weir left goroutines behind")
	for side, figures := range map[string]Figures{"weir": r.Weir, "client-go": r.ClientGo} {
		if found, ok := figures["indexObjects"]; ok && found < 1 {
			t.Errorf("%s finds %v objects by an index", side, found)
		}
		// Each change reaches each handler, unless weir merges it with a later one. client-go never
		// merges.
		if share, ok := figures["coalescedShare"]; ok && (share < 0 || share >= 1 || side == "client-go" && share != 0) {
			t.Errorf("%s merged %v of the events", side, share)
		}
	}
	return r
}

// TestMixed checks that the sync of a mixed population syncs all kinds, with weir and with
// client-go.
func TestMixed(t *testing.T) {
	const pods, seed = 40, 1
	server, err := process.StartServer(t.Context(), process.ServerSpec{Pods: pods, Population: podsim.Mixed, Seed: seed})
	check.NoError(t, err)
	t.Cleanup(func() { server.Close() })
	p, err := populations.New(podsim.Mixed, pods, seed)
	check.NoError(t, err)
	held, typed := 0, 0
	for k := range p.Kinds {
		held += p.Kinds[k].Len
		if typedKinds[p.Kinds[k].GroupVersionResource] != nil {
			typed++
		}
	}
	if typed != len(p.Kinds)-1 || typed != len(typedKinds) {
		t.Errorf("%d of %d kinds have a Go type, want all but the definitions", typed, len(p.Kinds))
	}
	o := Options{
		Config: server.Config(), Server: server.URL, Population: podsim.Mixed, Runs: 1, Objects: 10, Progress: io.Discard,
	}
	sync, _ := verbNamed("sync")
	native := expect(t, sync, o, "sync", float64(held))
	if want := []string{"--population mixed"}; !slices.Equal(native.Flags, want) {
		t.Errorf("flags %q, want %q", native.Flags, want)
	}
	o.DropIn = true
	expect(t, sync, o, "sync-dropin", float64(held))
	o.Unstructured = true
	expect(t, sync, o, "sync-dropin-unstructured", float64(held))
}

// TestContendersTakeTurns checks that every second round has the reverse order.
func TestContendersTakeTurns(t *testing.T) {
	v, _ := verbNamed("sync")
	forth, back := contendersOf(v, 0), contendersOf(v, 1)
	if len(forth) != 4 || forth[0].side != sideWeir {
		t.Fatalf("first round: %v", forth)
	}
	slices.Reverse(back)
	if !slices.Equal(forth, back) || !slices.Equal(forth, contendersOf(v, 2)) {
		t.Errorf("first round %v, second, backwards, %v, third %v", forth, back, contendersOf(v, 2))
	}
}

func TestRunReportsWhyAProcessEnded(t *testing.T) {
	// An informer would retry forever. The contender floor, which only reads a LIST, returns an error.
	s := spec{Verb: "sync", Options: Options{Server: "http://127.0.0.1:1"}}
	_, _, err := runOne(t.Context(), contender{side: sideFloor}, s)
	if !errors.Is(err, process.ErrExited) || !strings.Contains(err.Error(), "dial tcp 127.0.0.1:1") {
		t.Fatalf("got %v", err)
	}
}
