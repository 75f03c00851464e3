package store

import (
	"testing"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestDeleteByName checks which deletions apply to the object in the table. If both
// resourceVersions are integers, Delete compares them. Otherwise it compares the uids. A deletion
// with neither a resourceVersion nor a uid applies to any object of that name.
func TestDeleteByName(t *testing.T) {
	const uid, other = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
	for _, test := range []struct {
		held         string // resourceVersion in the table
		uid, version string // of the deletion
		wantGone     bool
	}{
		{"5", uid, "6", true},
		{"5", uid, "4", false},
		{"5", uid, "", true},
		{"5", other, "6", true},
		{"5", other, "", false},
		{"5", "", "6", true},
		{"5", "", "4", false},
		{"5", "", "x", false},
		{"5", "", "", true},
		{"x", "", "", true},
		{"x", other, "", false},
		{"x", uid, "", true},
	} {
		s := newStore(t, decodeConfig())
		w := s.Writer(Scope{})
		m := wire.Meta{Namespace: []byte("ns"), Name: []byte("a"), UID: []byte(uid), ResourceVersion: []byte(test.held)}
		w.BeginReplace(false)
		check.NoError(t, w.PutValue(&m, nil, "value"))
		w.EndReplace("5")
		m.UID, m.ResourceVersion = []byte(test.uid), []byte(test.version)
		check.NoError(t, w.Delete(&m, nil))
		w.Flush()
		if _, held := s.Get("ns/a"); held == test.wantGone {
			t.Errorf("%+v: held: %v", test, held)
		}
	}
}
