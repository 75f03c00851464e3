package store

import (
	"math"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// FuzzIdentity checks that the store returns any uid and resourceVersion unchanged. It must also
// return the bytes unchanged, at any position of the uid in them.
func FuzzIdentity(f *testing.F) {
	const uuid = "0d1f2a3b-4c5d-4e6f-8a9b-0c1d2e3f4a5b"
	f.Add(uuid, "12345", "before", "after")
	f.Add(uuid, "12345", "", "")
	f.Add(uuid, "12345", uuid+uuid, uuid)
	f.Add(uuid, "12345", strings.Repeat("far", 30_000), "")
	f.Add(uuid, "12345", strings.Repeat("k", math.MaxUint16-len(uuid)), "")
	f.Add(uuid, "12345", strings.Repeat("k", math.MaxUint16-len(uuid)+1), "")
	f.Add("0D1F2A3B-4C5D-4E6F-8A9B-0C1D2E3F4A5B", "0012345", "before", "after")
	f.Add("", "", "", "")
	f.Add("uid", "99999999999999999999", "", "")
	s := New(Config{Encoding: wire.Protobuf})
	defer s.Close()
	f.Fuzz(func(t *testing.T, uid, rv, before, after string) {
		raw := []byte(before + uid + after)
		w := s.Writer(Scope{})
		defer w.Remove()
		m := wire.Meta{Namespace: []byte("ns"), Name: []byte("name"), UID: []byte(uid), ResourceVersion: []byte(rv)}
		for range 2 {
			check.NoError(t, w.Put(&m, raw))
			w.Flush()
		}
		o, ok := s.Get("ns/name")
		if !ok || o.UID() != uid || string(o.AppendUID([]byte("x"))) != "x"+uid || o.ResourceVersion() != rv {
			t.Fatalf("put %q %q, got %q %q", uid, rv, o.UID(), o.ResourceVersion())
		}
		if got, err := o.AppendRaw([]byte("dst")); err != nil || string(got) != "dst"+string(raw) {
			t.Fatalf("%q %v", got, err)
		}
		if _, ok := parseUUID([]byte(uid)); ok && len(before) < 1000 && o.flags&flagCutUID == 0 {
			t.Fatal("the uid was not cut out")
		}
		if s.Revision()%2 != 1 { // one put here; each earlier run made one put and one deletion
			t.Fatalf("the same version twice made a change: revision %d", s.Revision())
		}
		if u, ok := parseUUID([]byte(uid)); ok && formatUUID(u) != uid {
			t.Fatalf("%q comes back as %s", uid, formatUUID(u))
		}
	})
}
