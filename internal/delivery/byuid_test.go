package delivery

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/weirproject/weir/internal/store"
)

// TestByUID: a handler that asks for it is told of each object that there was, however far it is
// behind; another one of each key.
func TestByUID(t *testing.T) {
	for _, tc := range []struct {
		name  string
		byUID bool
		cfg   store.Config
		want  string
	}{
		{"keeping up", true, store.Config{}, `
ADDED d/a -→1 initial
MODIFIED d/a 1→2
MODIFIED d/a 2→3
DELETED d/a 3→-
ADDED d/b -→5
DELETED d/b 5→-
ADDED d/a -→7
MODIFIED d/a 7→8`},
		{"behind", true, store.Config{LogBytes: 1}, `
ADDED d/a -→1 initial
DELETED d/a 1→- coalesced
ADDED d/a -→3
DELETED d/a 3→-
ADDED d/b -→5
DELETED d/b 5→-
ADDED d/a -→8 coalesced`},
		{"by key, keeping up", false, store.Config{}, `
ADDED d/a -→1 initial
MODIFIED d/a 1→2
MODIFIED d/a 2→3
DELETED d/a 3→-
ADDED d/b -→5
DELETED d/b 5→-
ADDED d/a -→7
MODIFIED d/a 7→8`},
		{"by key, behind", false, store.Config{LogBytes: 1}, `
ADDED d/a -→1 initial
MODIFIED d/a 1→8 coalesced`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				w := newTestStore(t, tc.cfg)
				defer w.store.Close()
				var log []string
				release := make(chan struct{})
				r := New(w.store, func(_ context.Context, e Event) {
					log = append(log, line(e))
					<-release
				}, Options{ByUID: tc.byUID})
				go r.Run(ctx)
				w.uid = "one"
				w.sync("a")
				synctest.Wait()
				w.putWithUID("a", "one")
				w.putWithUID("a", "two") // the deletion of the first was missed
				w.del("a")
				w.putWithUID("b", "three")
				w.del("b")
				w.putWithUID("a", "four")
				w.putWithUID("a", "four")
				close(release)
				synctest.Wait()
				cancel()
				<-r.Done()
				expect(t, log, tc.want)
			})
		})
	}
}
