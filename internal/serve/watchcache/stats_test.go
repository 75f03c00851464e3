package watchcache

import (
	"fmt"
	"testing"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestChanges checks that Stats.Changes does not count the objects of the first list, but counts
// later events and the changes that a relist finds.
func TestChanges(t *testing.T) {
	st := store.New(store.Config{Encoding: wire.JSON, KeepLog: true})
	c, err := New(Config{Resource: things, Store: st, Encoding: wire.JSON})
	check.NoError(t, err)
	defer st.Close()
	defer c.Close()
	w := st.Writer(store.Scope{})
	put := func(name string, rv int) {
		t.Helper()
		raw := fmt.Appendf(nil, `{"metadata":{"namespace":"n","name":%q,"uid":%q,"resourceVersion":"%d"}}`, name, name, rv)
		var m wire.Meta
		check.NoError(t, wire.ReadMeta(wire.JSON, raw, &m))
		check.NoError(t, w.Put(&m, raw))
	}
	count := func(when string, want uint64) {
		t.Helper()
		check.Equal(t, c.Stats().Changes, want, "%s: changes", when)
	}
	w.BeginReplace(false)
	put("a", 1)
	put("b", 2)
	w.Flush()
	count("in the middle of the first list", 0)
	put("c", 3)
	w.EndReplace("3")
	count("after the first list", 0)
	put("a", 4)
	put("d", 5)
	w.Flush()
	count("after two events", 2)
	w.BeginReplace(false)
	put("a", 4)
	put("b", 2)
	put("c", 6)
	w.EndReplace("7") // c has changed, and d was deleted
	count("after a relist", 4)
}
