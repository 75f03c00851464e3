package store

import (
	"strconv"
	"sync"
	"testing"

	"github.com/weirproject/weir/internal/wire"
)

// TestSyncedAtItsVersion: whoever finds a store synced finds it at a resourceVersion as well, also
// where the last first list has objects of which another writer was told that they had gone. There
// are more of them than a batch takes.
func TestSyncedAtItsVersion(t *testing.T) {
	for name, end := range map[string]string{"right": "500", "not known yet": "150"} {
		t.Run(name, func(t *testing.T) {
			for range 100 {
				s := New(Config{Encoding: wire.Protobuf})
				w, other := s.Writer(Scope{}), s.Writer(Scope{Claim: 1})
				other.BeginReplace(false)
				for i := range batchChanges + 1 {
					putPod(t, other, smallPod("a", strconv.Itoa(i), i, 50, nil, "n"))
				}
				other.EndReplace("100")
				for i := range batchChanges + 1 {
					deletePod(t, other, smallPod("a", strconv.Itoa(i), i, 200+i, nil, "n"))
				}
				other.Progress("400")
				other.Flush()

				w.BeginReplace(false)
				for i := range batchChanges + 1 {
					putPod(t, w, smallPod("a", strconv.Itoa(i), i, 50, nil, "n"))
				}
				found := ""
				var reader sync.WaitGroup
				reader.Go(func() {
					for synced := false; !synced; {
						s.mu.RLock()
						synced, found = s.syncedLocked(), s.resourceVersionLocked()
						s.mu.RUnlock()
					}
				})
				w.EndReplace(end)
				w.Progress("500")
				reader.Wait()
				if s.Close(); found == "" {
					t.Fatal("synced, and at no resourceVersion")
				}
			}
		})
	}
}
