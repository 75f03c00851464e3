package clientgo

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestResyncOnRelist checks that the option restores client-go's updates for unchanged objects.
func TestResyncOnRelist(t *testing.T) {
	synctest.Test(t, testResyncOnRelist)
}

func testResyncOnRelist(t *testing.T) {
	for _, on := range []bool{false, true} {
		source := newFakeSource(t)
		source.Add(pod("a", "1"))
		source.Add(pod("b", "1"))
		inf := NewSharedIndexInformerWithOptions(source, &corev1.Pod{}, time.Hour, nil, Options{ResyncOnRelist: on})
		calls := newRecorder()
		reg, err := inf.AddEventHandlerWithResyncPeriod(calls, 0)
		check.NoError(t, err)
		stop := run(t, inf)
		synced(t, reg.HasSyncedChecker())
		source.watches.wait(t)
		source.DeleteDropWatch(pod("b", "1"))
		source.ResetWatch()
		calls.wait(t, "delete tombstone d/b d/b@2 v=1")
		if on {
			calls.wait(t, "update d/a@1 v=1 -> d/a@1 v=1")
		}
		source.watches.wait(t)
		source.Add(pod("c", "1"))
		calls.wait(t, "add d/c@4 v=1")
		stop()
		want := map[bool]int{false: 4, true: 5}[on]
		if got := calls.all(); len(got) != want {
			t.Errorf("on %v: told %q", on, got)
		}
	}
}
