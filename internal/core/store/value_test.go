package store

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weirproject/weir/internal/core/wire"
)

func metaOf(name, rv string) *wire.Meta {
	return &wire.Meta{Namespace: []byte("d"), Name: []byte(name), UID: []byte("u"), ResourceVersion: []byte(rv)}
}

// TestPutValue checks that Decoded returns the value that was put, for the newest version and for
// an old one.
func TestPutValue(t *testing.T) {
	s := New(Config{})
	defer s.Close()
	w := s.Writer(Scope{})
	c := s.Cursor()
	one, two := &struct{ n int }{1}, &struct{ n int }{2}
	w.BeginReplace(false)
	if err := w.PutValue(metaOf("a", "1"), nil, one); err != nil {
		t.Fatal(err)
	}
	w.EndReplace("1")
	if err := w.PutValue(metaOf("a", "2"), nil, two); err != nil {
		t.Fatal(err)
	}
	w.Flush()
	changes := make([]Change, 8)
	if n := c.Next(changes); n != 2 {
		t.Fatalf("%d changes, want 2", n)
	}
	for i, want := range []any{one, two} {
		if got, err := changes[i].New.Decoded(); err != nil || got != want {
			t.Errorf("change %d: %v, %v", i, got, err)
		}
	}
	if got, err := changes[1].Old.Decoded(); err != nil || got != any(one) {
		t.Errorf("old: %v, %v", got, err)
	}
	if raw, err := changes[1].New.AppendRaw(nil); len(raw) != 0 || err != nil {
		t.Errorf("raw: %q, %v", raw, err)
	}
	// The same version again, and a lower one, change nothing.
	for _, rv := range []string{"2", "1"} {
		if err := w.PutValue(metaOf("a", rv), nil, one); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.Flush(); n != 0 {
		t.Errorf("%d changes by old versions", n)
	}
}

// TestManualWriter checks that a manual writer may put any version, and that the next relist
// restores the server's version.
func TestManualWriter(t *testing.T) {
	s := New(Config{})
	defer s.Close()
	manual := s.ManualWriter(Scope{})
	if s.Synced() {
		t.Error("synced without a writer")
	}
	w := s.Writer(Scope{})
	put := func(w *Writer, name, rv string) {
		t.Helper()
		if err := w.PutValue(metaOf(name, rv), nil, &struct{ rv string }{rv}); err != nil {
			t.Fatal(err)
		}
	}
	w.BeginReplace(false)
	put(w, "a", "5")
	w.EndReplace("5")
	put(manual, "a", "3")
	put(manual, "b", "")
	manual.Flush()
	if o, ok := s.Get("d/a"); !ok || o.ResourceVersion() != "3" {
		t.Errorf("what was put manually: %v", o)
	}
	if !s.Synced() || s.ResourceVersion() != "5" {
		t.Errorf("synced %v at %q", s.Synced(), s.ResourceVersion())
	}
	w.BeginReplace(false)
	put(w, "a", "5")
	w.EndReplace("6")
	if o, ok := s.Get("d/a"); !ok || o.ResourceVersion() != "5" {
		t.Errorf("a after the relist: %v", o)
	}
	if _, ok := s.Get("d/b"); ok {
		t.Error("b survived a relist that did not have it")
	}
}

// TestMissed checks the resourceVersion in the change of a deletion, and that the change is Missed
// if no source reported the deletion.
func TestMissed(t *testing.T) {
	for _, lagging := range []bool{false, true} {
		cfg := Config{}
		if lagging {
			cfg.LogBytes = 1
		}
		s := New(cfg)
		w := s.Writer(Scope{})
		w.BeginReplace(false)
		for _, name := range []string{"a", "b"} {
			if err := w.Put(metaOf(name, "1"), []byte(`{}`)); err != nil {
				t.Fatal(err)
			}
		}
		w.EndReplace("1")
		c := s.Cursor()
		changes := make([]Change, 8)
		c.Next(changes)
		if err := w.Delete(metaOf("a", "7"), nil); err != nil {
			t.Fatal(err)
		}
		w.Flush()
		w.BeginReplace(false)
		w.EndReplace("9")
		n := c.Next(changes)
		if n != 2 {
			t.Fatalf("lagging %v: %d changes", lagging, n)
		}
		if a := changes[0]; a.Missed || a.ResourceVersion != 7 {
			t.Errorf("lagging %v: told deletion: %+v", lagging, a)
		}
		if b := changes[1]; !b.Missed || b.ResourceVersion != 9 {
			t.Errorf("lagging %v: missed deletion: %+v", lagging, b)
		}
		s.Close()
	}
}

// putLabelled puts a value that consists of metadata with two labels.
func putLabelled(t *testing.T, w *Writer, name, rv, app string) {
	t.Helper()
	var m wire.Meta
	text := fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"d","uid":"u","resourceVersion":%q,"labels":{"app":%q,"tier":"x"}}}`, name, rv, app)
	if err := wire.ReadMeta(wire.JSON, []byte(text), &m); err != nil {
		t.Fatal(err)
	}
	if err := w.PutValue(&m, nil, &m); err != nil {
		t.Fatal(err)
	}
}

// TestLabelIndexOfValues checks that an index by label contains objects that are stored as Go
// values. It checks this after they change, after they are deleted, and for an index that is added
// later.
func TestLabelIndexOfValues(t *testing.T) {
	s := New(Config{})
	defer s.Close()
	label := func(name string) {
		t.Helper()
		if err := s.AddIndex(name, LabelIndex(name)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(index, value string, want ...string) {
		t.Helper()
		objects, err := s.Snapshot().By(index, value)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for o := range objects {
			got = append(got, o.Name())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s %s: %v, want %v", index, value, got, want)
		}
	}
	path, err := wire.CompilePath(wire.JSON, nil, "spec.nodeName")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.AddIndex("node", FieldIndex(path)); err != nil {
		t.Fatal(err)
	}
	label("app")
	w := s.Writer(Scope{})
	putLabelled(t, w, "a", "1", "web")
	putLabelled(t, w, "b", "1", "web")
	w.Flush()
	check("app", "web", "a", "b")
	putLabelled(t, w, "a", "2", "db")
	w.Flush()
	check("app", "web", "b")
	check("app", "db", "a")
	label("tier")
	check("tier", "x", "a", "b")
	putLabelled(t, w, "c", "3", "web")
	label("team") // while c is buffered
	w.Flush()
	check("app", "web", "b", "c")
	check("tier", "x", "a", "b", "c")
	if o, _ := s.Get("d/c"); o.Labels()["app"] != "web" {
		t.Errorf("labels %v", o.Labels())
	}
	for _, name := range []string{"a", "b", "c"} {
		if err := w.Delete(metaOf(name, "9"), nil); err != nil {
			t.Fatal(err)
		}
	}
	w.Flush()
	for _, index := range []string{"app", "tier", "node"} {
		if values := slices.Collect(s.Snapshot().Values(index)); len(values) != 0 {
			t.Errorf("index %s of nothing has %v", index, values)
		}
	}
}

// TestNamesakeEnds checks that DeleteNamesake removes the stored object, even if the
// resourceVersions cannot be compared. Delete with another uid must remove the object only if the
// resourceVersions show that the deletion is later.
func TestNamesakeEnds(t *testing.T) {
	for _, versions := range [][2]string{{"5", "6"}, {"v5", "v6"}} {
		comparable := versions[0] == "5"
		for name, ends := range map[string]bool{"namesake": true, "deletion": comparable} {
			s := New(Config{})
			w := s.Writer(Scope{})
			w.BeginReplace(false)
			if err := w.PutValue(metaOf("a", versions[0]), nil, 1); err != nil {
				t.Fatal(err)
			}
			w.EndReplace(versions[0])
			other := metaOf("a", versions[1])
			other.UID = []byte("another")
			tell := w.Delete
			if name == "namesake" {
				tell = w.DeleteNamesake
			}
			err := tell(other, nil)
			if w.Flush(); err != nil || (s.Len() == 0) != ends {
				t.Errorf("%s, %v: %v, %d objects", name, versions, err, s.Len())
			}
			s.Close()
		}
	}
}
