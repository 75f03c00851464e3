package reflector

import (
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestDrop checks that dropped fields of objects in lists and events are not stored.
func TestDrop(t *testing.T) {
	for _, enc := range []wire.Encoding{wire.JSON, wire.Protobuf} {
		drop, err := wire.CompileDrop(enc, reflect.TypeFor[corev1.Pod](), "metadata.annotations")
		check.NoError(t, err)
		withHarness(t, Config{Mode: List, Drop: drop}, func(h *harness) {
			if h.enc != enc {
				return
			}
			h.run(h.list("10", "a@1=secret", "b@2=secret"), h.events("~b@11=secret"))
			h.wantObjects("a@1 b@11")
			for o := range h.store.Snapshot().All() {
				raw, err := o.AppendRaw(nil)
				if err != nil || strings.Contains(string(raw), "secret") {
					t.Errorf("%s: %q, %v", o.Key(), raw, err)
				}
			}
		})
	}
}

// TestOnItemType checks that OnItemType is called once with the type of the objects, before the
// first object is stored.
func TestOnItemType(t *testing.T) {
	var types []wire.TypeMeta
	held := 0
	cfg := Config{Mode: List}
	var s *store.Store
	cfg.OnItemType = func(tm wire.TypeMeta) {
		types = append(types, tm)
		held = s.Len()
	}
	withHarness(t, cfg, func(h *harness) {
		types, s = nil, h.store
		h.run(h.list("10", "a@1", "b@2"), h.events("~a@11", "error@410"), h.list("12", "a@11"), h.events())
		if len(types) != 1 || types[0] != podType || held != 0 {
			t.Errorf("told %v, with %d objects held", types, held)
		}
	})
}

// sinkOf replaces the sink of a harness by a wrapper around it.
func sinkOf(h *harness, wrap func(Sink) Sink) { h.r.sink = wrap(h.r.sink) }

// choosy is a sink that refuses one object. It records the types that Take receives, and the start
// and the end of each replace.
type choosy struct {
	Sink
	types []wire.EventType
	steps []string
}

var errChoosy = errors.New("not this one")

func (c *choosy) Take(t wire.EventType, m *wire.Meta, object []byte, value any) error {
	c.types = append(c.types, t)
	if string(m.Name) == "b" {
		return Refusal{Err: errChoosy}
	}
	return c.Sink.Take(t, m, object, value)
}

func (c *choosy) BeginReplace(rebase bool) {
	c.steps = append(c.steps, "begin")
	c.Sink.BeginReplace(rebase)
}

func (c *choosy) EndReplace(rv string) {
	c.steps = append(c.steps, "end "+rv)
	c.Sink.EndReplace(rv)
}

// TestSink checks that the reflector counts objects that a sink refuses with a Refusal, and does
// not list because of them. It also checks the calls of the sink.
func TestSink(t *testing.T) {
	withHarness(t, Config{Mode: List}, func(h *harness) {
		var c *choosy
		sinkOf(h, func(s Sink) Sink { c = &choosy{Sink: s}; return c })
		h.run(h.list("10", "a@1", "b@2"), h.events("+c@11", "~b@12", "-a@13"))
		h.wantObjects("c@11")
		if s := h.r.Status(); s.Skipped != 2 || !errors.Is(s.Err, errChoosy) || s.ResourceVersion != "13" {
			t.Errorf("%s", s)
		}
		if !reflect.DeepEqual(c.types, []wire.EventType{0, 0, wire.Added, wire.Modified, wire.Deleted}) {
			t.Errorf("%v", c.types)
		}
	})
	withHarness(t, Config{Mode: List}, func(h *harness) {
		var c *choosy
		sinkOf(h, func(s Sink) Sink { c = &choosy{Sink: s}; return c })
		h.run(h.list("10", "a@1"), h.events("~a@11", "error@410"), h.list("12", "a@11"), h.events())
		h.wantObjects("a@11")
		if !reflect.DeepEqual(c.steps, []string{"begin", "end 10", "begin", "end 12"}) {
			t.Errorf("%v", c.steps)
		}
	})
}

// losing is a sink that cannot store one object of an event. It records the versions that it is
// current to.
type losing struct {
	Sink
	lost     bool
	versions []string
}

func (l *losing) Take(t wire.EventType, m *wire.Meta, object []byte, value any) error {
	if string(m.Name) == "b" && !l.lost {
		l.lost = true
		return errChoosy
	}
	return l.Sink.Take(t, m, object, value)
}

func (l *losing) Progress(rv string) {
	l.versions = append(l.versions, rv)
	l.Sink.Progress(rv)
}

func (l *losing) EndReplace(rv string) {
	l.versions = append(l.versions, "list "+rv)
	l.Sink.EndReplace(rv)
}

// TestLostEvent checks that a sink that could not store an event is current to the version before
// that event until the list that follows has ended, also if the first such list fails.
func TestLostEvent(t *testing.T) {
	withHarness(t, Config{Mode: List}, func(h *harness) {
		var l *losing
		sinkOf(h, func(s Sink) Sink { l = &losing{Sink: s}; return l })
		h.run(h.list("10", "a@1"), h.events("+c@11", "+b@12"), deny(500, ""), h.list("14", "a@1", "b@12", "c@11"), h.events("bookmark@20"))
		check.Equal(t, h.r.Status().ResourceVersion, "11", "the version after the lost event")
		h.advance(time.Minute)
		h.wantObjects("a@1 b@12 c@11")
		check.Equal(t, strings.Join(slices.Compact(l.versions), ", "), "list 10, 11, list 14, 20", "versions")
	})
}

// full is a sink that accepts no more writes after the call of a method, or after a step. The field
// after is the name of that method or step.
type full struct {
	Sink
	after string
	err   error
	calls int // calls of the sink after err was set
}

var errFull = errors.New("the disk is full")

func (f *full) step(name string) {
	if f.err != nil {
		f.calls++
	} else if name == f.after {
		f.err = errFull
	}
}

func (f *full) Take(t wire.EventType, m *wire.Meta, object []byte, value any) error {
	f.step(map[wire.EventType]string{0: "item", wire.Added: "event"}[t])
	if f.err != nil {
		return f.err
	}
	return f.Sink.Take(t, m, object, value)
}

func (f *full) BeginReplace(rebase bool) { f.step("begin"); f.Sink.BeginReplace(rebase) }
func (f *full) EndReplace(rv string)     { f.step("end"); f.Sink.EndReplace(rv) }
func (f *full) Progress(rv string)       { f.step("progress"); f.Sink.Progress(rv) }
func (f *full) Err() error               { return f.err }

func (f *full) AbortReplace() { f.Sink.AbortReplace(); f.step("abort") }

// TestSinkEnds checks, for each method of a sink, that Run ends with the sink's error after that
// method has failed. The Status must not report anything that the sink has not accepted.
func TestSinkEnds(t *testing.T) {
	for after, test := range map[string]struct {
		script func(h *harness) []http.HandlerFunc
		tells  string // the start of the Status at the end
	}{
		"begin": {tells: "stopped (List)"},
		"item":  {tells: "stopped (List)"},
		"end":   {tells: "stopped (List)"},
		"event": {tells: "stopped (List) at 10"},
		"progress": {tells: "stopped (List) at 10", script: func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{h.list("10", "a@1"), h.events("bookmark@11"), h.events("bookmark@12")}
		}},
		"abort": {tells: "stopped (List)", script: func(h *harness) []http.HandlerFunc {
			return []http.HandlerFunc{h.brokenList(9, "10", "a@1", "b@2", "c@3"), h.list("10", "a@1")}
		}},
	} {
		withHarness(t, Config{Mode: List}, func(h *harness) {
			var f *full
			sinkOf(h, func(s Sink) Sink { f = &full{Sink: s, after: after}; return f })
			script := []http.HandlerFunc{h.list("10", "a@1", "b@2"), h.events("+c@11"), h.events("+d@12")}
			if test.script != nil {
				script = test.script(h)
			}
			h.run(script...)
			s := h.r.Status()
			if s.LastErr = nil; s.Phase != Stopped || !strings.HasPrefix(s.String(), test.tells) || strings.Contains(test.tells, "at") != (s.ResourceVersion != "") {
				t.Errorf("after %s: %s", after, s)
			}
			if err := h.stop(); !errors.Is(err, errFull) || f.calls > 1 {
				t.Errorf("after %s: Run returned %v, %d steps later", after, err, f.calls)
			}
			for _, st := range h.statuses {
				if test.tells == "stopped (List)" && st.Synced {
					t.Errorf("after %s it told of %s", after, st)
				}
			}
		})
	}
}

// bodies is a source of JSON whose responses do not end. It counts the open responses.
type bodies struct {
	tape
	open atomic.Int32
}

func (b *bodies) body(text string) *body {
	b.open.Add(1)
	return &body{strings.NewReader(text), &b.open}
}

func (b *bodies) List(context.Context, metav1.ListOptions) (source.List, error) {
	return listOf(b.body(`{"kind":"PodList","metadata":{"resourceVersion":"10"},"items":[{"metadata":{"name":"a","resourceVersion":"1"}}]}`), wire.JSON)
}

func (b *bodies) Watch(context.Context, metav1.ListOptions) (source.Watch, error) {
	return watchOf(b.body(`{"type":"ADDED","object":{"metadata":{"name":"b","resourceVersion":"11"}}}`), wire.JSON)
}

type body struct {
	io.Reader
	open *atomic.Int32
}

func (b *body) Close() error { b.open.Add(-1); return nil }

// broken is a sink that panics when it receives an object of a list (listed) or of an event.
type broken struct {
	Sink
	listed bool
}

func (b *broken) Take(t wire.EventType, m *wire.Meta, object []byte, value any) error {
	if (t == 0) == b.listed {
		panic("broken")
	}
	return b.Sink.Take(t, m, object, value)
}

// TestSinkPanics checks that after a panic of the sink, the reflector has no open request, no probe
// and no place in the queue of lists.
func TestSinkPanics(t *testing.T) {
	for _, listed := range []bool{true, false} {
		s := store.New(store.Config{Encoding: wire.JSON})
		src, server := &bodies{}, &Server{}
		r := New(src, &broken{s.Writer(store.Scope{}), listed}, Config{Mode: List, Server: server, MaxLists: 1})
		func() {
			defer func() {
				check.Equal(t, recover(), "broken", "Run panics with")
			}()
			_ = r.Run(t.Context())
		}()
		if open, lists, probes := src.open.Load(), server.lists.held, len(server.watching); open+int32(lists+probes) != 0 {
			t.Errorf("listed %v: %d bodies are open, %d lists and %d probes go on", listed, open, lists, probes)
		}
		s.Close()
	}
}
