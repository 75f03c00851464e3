package mirror

import (
	"cmp"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestEvictionOrder checks in which order resources are evicted.
func TestEvictionOrder(t *testing.T) {
	const limit = 100
	now := time.Now()
	claimOf := func(name string, bytes int64, unread time.Duration, ready bool, watchers int64) evictionCandidate {
		res := newResource(&Mirror{}, schema.GroupVersionResource{Resource: name}, settings{})
		res.lastRead.Store(now.Add(-unread).UnixNano())
		res.watchers.Store(watchers)
		return res.candidate(bytes, limit, ready, now)
	}
	inOrder := []evictionCandidate{
		claimOf("never fits", 101, 0, true, 9),
		claimOf("long unread", 10, 20*time.Minute, true, 0),
		claimOf("unread", 10, 10*time.Minute, true, 0),
		claimOf("large and being read in", 80, 0, false, 0),
		claimOf("being read in", 10, 0, false, 0),
		claimOf("read before", 10, 2*time.Minute, true, 0),
		claimOf("just read", 10, time.Second, true, 0),
		claimOf("large and watched", 80, time.Hour, true, 1),
		claimOf("watched", 10, time.Hour, true, 1),
	}
	for i := range inOrder {
		for j := range inOrder {
			check.Equal(t, inOrder[i].compare(inOrder[j]), cmp.Compare(i, j), "%q and %q", inOrder[i].GVR().Resource, inOrder[j].GVR().Resource)
		}
	}
}
