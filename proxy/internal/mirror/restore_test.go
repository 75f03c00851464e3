package mirror

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestShownRestore checks that a list that is older than the cached state shows that the upstream
// was restored from a backup. It shows no restore if the restore was found before, or if another
// server has answered the list.
func TestShownRestore(t *testing.T) {
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	for name, c := range map[string]struct {
		then func(rt *RestoreTracker)
		want bool
	}{
		"older":             {func(*RestoreTracker) {}, true},
		"known":             {func(rt *RestoreTracker) { rt.WentBack() }, false},
		"of another server": {func(rt *RestoreTracker) { rt.replaced(pods) }, false},
	} {
		var rt RestoreTracker
		if rt.revealsRestore(pods, 10) {
			t.Errorf("%s: the first list shows a restore", name)
		}
		rt.SessionBegan(pods)
		rt.SessionEnded(pods, 20, false)
		c.then(&rt)
		if got := rt.revealsRestore(pods, 19); got != c.want {
			t.Errorf("%s: shows a restore: %v", name, got)
		}
		rt.SessionBegan(pods)
		rt.SessionEnded(pods, 20, false)
		if rt.revealsRestore(pods, 20) {
			t.Errorf("%s: a list as new as what was cached shows a restore", name)
		}
	}
}

// TestRestoreAfterOtherEnd checks which resourceVersions count as older than a restore: all up to
// the highest one that was observed before the upstream went back. Versions that are observed after
// the restore count as older only when the upstream goes back again.
func TestRestoreAfterOtherEnd(t *testing.T) {
	var rt RestoreTracker
	rt.Observe(10)
	rt.Observe(7)
	if rt.before(10) {
		t.Error("went back before it went back")
	}
	rt.WentBack()
	rt.Observe(20)
	if !rt.before(10) || rt.before(11) || rt.before(0) {
		t.Errorf("went back from %d", rt.newestBefore)
	}
	rt.WentBack()
	if !rt.before(20) {
		t.Errorf("went back from %d the second time", rt.newestBefore)
	}
}

// TestUnread checks a resource that was cached shortly before the upstream went back. It is unread
// until it is cached again, for at most rereadTime.
func TestUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rt RestoreTracker
		resources := map[string]schema.GroupVersionResource{}
		for _, name := range []string{"cached", "ended", "endedLater", "endedLongAgo", "never", "again"} {
			resources[name] = schema.GroupVersionResource{Version: "v1", Resource: name}
			if name != "never" {
				rt.SessionBegan(resources[name])
			}
		}
		check := func(when string, want ...string) {
			for name, gvr := range resources {
				if got := rt.isUnread(gvr); got != slices.Contains(want, name) {
					t.Errorf("%s: %s unread: %v", when, name, got)
				}
			}
		}
		rt.SessionEnded(resources["never"], 5, false)
		rt.SessionEnded(resources["endedLongAgo"], 5, false)
		time.Sleep(rereadTime + time.Second)
		rt.SessionEnded(resources["ended"], 5, false)
		check("before")
		rt.WentBack()
		rt.SessionEnded(resources["endedLater"], 5, true)
		rt.SessionBegan(resources["again"])
		check("after", "cached", "ended", "endedLater")
		// it ended because of the restore, although it began after the restore was found
		rt.SessionEnded(resources["again"], 5, true)
		check("after it ended", "cached", "ended", "endedLater", "again")
		rt.SessionBegan(resources["again"])
		rt.SessionEnded(resources["again"], 5, false)
		check("when cached again", "cached", "ended", "endedLater")
		time.Sleep(rereadTime + time.Second)
		check("in the end")
		if rt.forget(); len(rt.cached) != 1 {
			t.Errorf("%d are remembered", len(rt.cached))
		}
	})
}
