package store

import (
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

type counting struct{ calls, owners int }

func (n *counting) Notify(owners []any) { n.calls, n.owners = n.calls+1, n.owners+len(owners) }

// TestOneCallForMany checks that a change that wakes many cursors of one notifier causes one call.
// It must also wake cursors with another notifier, or with none.
func TestOneCallForMany(t *testing.T) {
	s := newStore(t, decodeConfig())
	w := s.Writer(Scope{})
	var many, other counting
	var all []*Cursor
	for range 100 {
		all = append(all, s.NotifyingCursor(&many, 1))
	}
	for range 10 {
		all = append(all, s.Cursor())
	}
	for _, c := range all {
		drain(c)
	}
	check.Equal(t, many.owners, 100, "cursors were made with calls")
	many = counting{}
	putPod(t, w, smallPod("a", "b", 1, 1, nil, ""))
	w.Flush()
	if many.calls != 1 || many.owners != 100 {
		t.Errorf("%d calls for %d cursors, want one for 100", many.calls, many.owners)
	}
	for _, c := range all[100:] {
		select {
		case <-c.Ready():
		default:
			t.Error("a cursor without a notifier was not signalled")
		}
	}
	late := s.NotifyingCursor(&other, 2)
	drain(late)
	for _, c := range all {
		drain(c)
	}
	many, other = counting{}, counting{}
	putPod(t, w, smallPod("a", "b", 2, 2, nil, ""))
	w.Flush()
	if many.owners != 100 || other.owners != 1 {
		t.Errorf("two notifiers were told of %d and %d cursors, want 100 and 1", many.owners, other.owners)
	}
}
