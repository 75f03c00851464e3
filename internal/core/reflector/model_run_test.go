package reflector

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestAgainstModel runs a reflector for hours against a server with faults, whose objects change
// all the time. Two minutes after the faults have ended, the store must have the server's state.
// The changes that a cursor received must lead to the same state.
func TestAgainstModel(t *testing.T) {
	testenv.SkipUnderRace(t)
	for seed := range uint64(16) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			cfg := Config{Mode: Mode(seed % 4), Consistency: Consistency(seed / 4 % 2), PageSize: 7}
			withHarness(t, cfg, func(h *harness) {
				m := newModel(h, seed)
				h.server = m.serve
				replica := follow(h.store)
				defer replica.close()
				live(h, m, rand.New(rand.NewPCG(seed, 3)))
				want, rv := m.want()
				h.wantObjects(want)
				h.wantCurrent(rv)
				replica.equal(t, want)
				if n := len(h.requests); n > 4000 {
					t.Errorf("%d requests", n)
				}
			})
		})
	}
}

// live changes objects and causes faults for some hours, and then lets the server recover.
func live(h *harness, m *model, rng *rand.Rand) {
	for range 30 {
		m.change()
	}
	h.run()
	objects, rv := m.backup()
	for range 300 {
		switch rng.IntN(20) {
		case 0:
			m.compact()
		case 1:
			m.breakAll()
		case 2:
			h.refuseConnections(true)
			m.breakAll()
			h.advance(time.Duration(rng.IntN(60)) * time.Second)
			h.refuseConnections(false)
		case 3:
			objects, rv = m.backup()
		case 4:
			if _, now := m.backup(); now > rv && rng.IntN(4) == 0 {
				m.setFaults(0)
				m.restore(objects, rv)
				// Give the reflector time to detect the restore. If the server reached the reflector's version
				// first, no client could detect the restore.
				h.advance(2 * time.Minute)
			}
		case 5:
			m.setFaults(rng.IntN(3) * 20)
		}
		for range rng.IntN(20) {
			m.change()
		}
		h.advance(time.Duration(rng.IntN(30_000)) * time.Millisecond)
	}
	m.setFaults(0)
	h.advance(2 * time.Minute)
	m.change() // when the store has this change, it has all changes before it
	h.advance(time.Second)
}

// follower is a copy of the store that is built from the changes of a cursor.
type follower struct {
	cursor *store.Cursor
	held   map[string]string // resourceVersions by key
}

func follow(s *store.Store) *follower { return &follower{s.Cursor(), map[string]string{}} }

func (f *follower) close() { f.cursor.Close() }

// equal reads all changes and compares the copy with want. The old state in each change must be
// equal to the state in the copy.
func (f *follower) equal(t *testing.T, want string) {
	t.Helper()
	buf := make([]store.Change, 64)
	for n := f.cursor.Next(buf); n > 0; n = f.cursor.Next(buf) {
		for _, c := range buf[:n] {
			was := ""
			if c.Old != nil {
				was = c.Old.ResourceVersion()
			}
			if f.held[c.Key()] != was {
				t.Errorf("%s was %q, and changes from %q", c.Key(), f.held[c.Key()], was)
			}
			if c.New == nil {
				delete(f.held, c.Key())
			} else {
				f.held[c.Key()] = c.New.ResourceVersion()
			}
		}
	}
	var got []string
	for _, key := range slices.Sorted(maps.Keys(f.held)) {
		got = append(got, strings.TrimPrefix(key, "n/")+"@"+f.held[key])
	}
	check.Equal(t, strings.Join(got, " "), want, "a cursor was told")
}
