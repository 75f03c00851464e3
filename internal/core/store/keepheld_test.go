package store

import (
	"testing"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// TestKeepHeld checks which versions KeepHeld keeps in the table. The list has an object that the
// caller cannot put. KeepHeld must keep any version of this object, but not another object with the
// same name, and not objects of other writers.
func TestKeepHeld(t *testing.T) {
	for name, test := range map[string]struct {
		rebase       bool
		owner        uint8 // of the writer that put the version in the table
		uid, version int   // of the listed object
		wantGone     bool
	}{
		"a newer version":           {uid: 1, version: 7},
		"an older version":          {uid: 1, version: 2},
		"after a restore":           {rebase: true, uid: 1, version: 2},
		"another object":            {uid: 2, version: 7, wantGone: true},
		"held by another":           {owner: 1, uid: 1, version: 7},
		"another, held by another":  {owner: 1, uid: 2, version: 7},
		"another after the restore": {rebase: true, uid: 2, version: 2, wantGone: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, decodeConfig())
			w, owner := s.Writer(Scope{}), s.Writer(Scope{Owner: 1})
			if test.owner == 0 {
				owner.Remove()
				owner = w
			}
			owner.BeginReplace(false)
			putPod(t, owner, smallPod("ns", "a", 1, 5, nil, "n"))
			owner.EndReplace("5")
			changes := s.Cursor()
			defer changes.Close()
			drain(changes)
			raw := podsim.Encode(s.Encoding().String(), smallPod("ns", "a", test.uid, test.version, nil, "bad"))
			var m wire.Meta
			check.NoError(t, wire.ReadMeta(s.Encoding(), raw, &m))
			list := func(end string) {
				w.BeginReplace(test.rebase)
				w.KeepHeld(&m)
				w.EndReplace(end)
			}
			list("9")
			list("9")
			o, held := s.Get("ns/a")
			if held == test.wantGone || held && o.ResourceVersion() != "5" {
				t.Errorf("held: %v, %v", held, o)
			}
			if told := drain(changes); (len(told) > 0) != test.wantGone || test.wantGone && !told[0].Missed {
				t.Errorf("told %v", told)
			}
			w.BeginReplace(false)
			w.EndReplace("10")
			if _, held := s.Get("ns/a"); held != (test.owner == 1) {
				t.Errorf("after a list without it, held: %v", held)
			}
		})
	}
}
