package delivery

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/weirproject/weir/internal/core/store"
)

// TestResyncNowOfWhatGoes: an object that is deleted during a resync is not resynced afterwards.
// The handler need not have received its deletion, or the deleted version.
func TestResyncNowOfWhatGoes(t *testing.T) {
	for _, tc := range []struct {
		name string
		held []string // by the store, when the handler starts
		want string
	}{
		{"created", []string{"a"}, `
ADDED d/a -→1 initial
RESYNC d/a 1→1
ADDED d/b -→2
DELETED d/b 2→- at 3`},
		{"updated", []string{"a", "b"}, `
ADDED d/a -→1 initial
ADDED d/b -→2 initial
RESYNC d/a 1→1
DELETED d/b 2→- coalesced unknown`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				w := newTestStore(t, store.Config{LogBytes: 1})
				defer w.store.Close()
				w.uid = "one"
				w.sync(tc.held...)
				var log []string
				var r *Registration
				r = New(w.store, func(_ context.Context, e store.Change) {
					// No other goroutine writes meanwhile.
					log = append(log, line(e))
					switch {
					case len(log) == len(tc.held):
						w.put("b", "")
						r.ResyncNow()
					case e.Type() == store.Resynced && e.Key() == "d/a":
						w.del("b")
					}
				}, Options{})
				go r.Run(ctx)
				synctest.Wait()
				cancel()
				<-r.Done()
				expect(t, log, tc.want)
			})
		})
	}
}
