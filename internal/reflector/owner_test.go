package reflector

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/wire"
)

// TestDrop removes a field before it is held, from lists and events alike.
func TestDrop(t *testing.T) {
	for _, enc := range []wire.Encoding{wire.JSON, wire.Protobuf} {
		drop, err := wire.CompileDrop(enc, reflect.TypeFor[corev1.Pod](), "metadata.annotations")
		if err != nil {
			t.Fatal(err)
		}
		inWorld(t, Config{Mode: List, Drop: drop}, func(w *world) {
			if w.enc != enc {
				return
			}
			w.run(w.list("10", "a@1=secret", "b@2=secret"), w.events("~b@11=secret"))
			w.holds("a@1 b@11")
			for o := range w.store.Snapshot().All() {
				raw, err := o.AppendRaw(nil)
				if err != nil || strings.Contains(string(raw), "secret") {
					t.Errorf("%s: %q, %v", o.Key(), raw, err)
				}
			}
		})
	}
}

// TestOnItemType tells what the objects are, once.
func TestOnItemType(t *testing.T) {
	var told []wire.TypeMeta
	held := 0
	cfg := Config{Mode: List}
	var s *store.Store
	cfg.OnItemType = func(tm wire.TypeMeta) {
		told = append(told, tm)
		held = s.Len()
	}
	inWorld(t, cfg, func(w *world) {
		told, s = nil, w.store
		w.run(w.list("10", "a@1", "b@2"), w.events("~a@11", "error@410"), w.list("12", "a@11"), w.events())
		if len(told) != 1 || told[0] != podType || held != 0 {
			t.Errorf("told %v, with %d objects held", told, held)
		}
	})
}

// TestTake lets the owner put what it likes, and counts what it cannot take.
func TestTake(t *testing.T) {
	no := errors.New("not this one")
	var types []wire.EventType
	cfg := Config{Mode: List, Take: func(w *store.Writer, t wire.EventType, m *wire.Meta, object []byte) error {
		types = append(types, t)
		switch {
		case string(m.Name) == "b":
			return no
		case t == wire.Deleted:
			return w.Delete(m, object)
		}
		return w.Put(m, object)
	}}
	inWorld(t, cfg, func(w *world) {
		types = nil
		w.run(w.list("10", "a@1", "b@2"), w.events("+c@11", "-a@12"))
		w.holds("c@11")
		if s := w.r.Status(); s.Skipped != 1 || !errors.Is(s.Err, no) || s.ResourceVersion != "12" {
			t.Errorf("%s", s)
		}
		if !reflect.DeepEqual(types, []wire.EventType{0, 0, wire.Added, wire.Deleted}) {
			t.Errorf("%v", types)
		}
	})
}

// steps notes the steps of relists, and does them.
type steps struct{ seen []string }

func (s *steps) BeginReplace(w *store.Writer, rebase bool) {
	s.seen = append(s.seen, "begin")
	w.BeginReplace(rebase)
}

func (s *steps) EndReplace(w *store.Writer, rv string) {
	s.seen = append(s.seen, "end "+rv)
	w.EndReplace(rv)
}

func (s *steps) AbortReplace(w *store.Writer) {
	s.seen = append(s.seen, "abort")
	w.AbortReplace()
}

// TestReplacer lets the owner do the steps of every relist.
func TestReplacer(t *testing.T) {
	s := &steps{}
	inWorld(t, Config{Mode: List, Replacer: s}, func(w *world) {
		s.seen = nil
		w.run(w.list("10", "a@1", "b@2"), w.events("~a@11", "error@410"), w.list("12", "a@11"), w.events())
		w.holds("a@11")
		if !reflect.DeepEqual(s.seen, []string{"begin", "end 10", "begin", "end 12"}) {
			t.Errorf("%v", s.seen)
		}
	})
}
