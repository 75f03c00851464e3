package seats

import (
	"fmt"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestSharesOfMemory checks how much of the memory callers may use. One user may use half, and all
// unknown tokens together may also use half. Callers without a credential may use an eighth.
// Callers that run the cluster may use all. A source with unknown tokens must leave as much free as
// it uses.
func TestSharesOfMemory(t *testing.T) {
	const room = 96
	w := newWatches(&Config{
		Watches: 10 * room, WatchesPerUser: 10 * room, WatchMemory: room * WatchBytes,
		Connections: func() int64 { return 0 }, Kept: func() int64 { return 0 },
	})
	var slots []*Slot
	acquire := func(of Flow, most int) (n int) {
		for ; n < most; n++ {
			f := of
			if f.Level == NewTokens {
				f.Token = fmt.Sprint(tokenPrefix, f.Caller, n)
			}
			p, err := w.Acquire(f, 0)
			if err != nil {
				break
			}
			slots = append(slots, p)
		}
		return n
	}
	newToken := func(source string) Flow { return Flow{Level: NewTokens, Caller: source} }
	check.Equal(t, acquire(newToken("a"), room), room/4, "of one source")
	all := room / 4
	for i := range 10 {
		n := acquire(newToken(fmt.Sprint(i)), room)
		if n == 0 && i < 5 {
			t.Errorf("none of source %d", i)
		}
		all += n
	}
	if all > room/2 {
		t.Errorf("%d of all sources", all)
	}
	if n := acquire(Flow{Level: Anonymous, Caller: "a"}, room) + acquire(Flow{Level: Anonymous, Caller: "b"}, room); n > room/8 || n < 2 {
		t.Errorf("%d without a credential", n)
	}
	jane := &user.DefaultInfo{Name: "jane"}
	known, accepted := slots[0], slots[1]
	if !known.ByToken() || known.Asked() {
		t.Error("the user of a new token is known")
	}
	if err := known.Identify(jane); err != nil || known.ByToken() || !known.Asked() {
		t.Error(err)
	}
	accepted.Accept()
	check.Equal(t, w.Memory.ShareBytes(watchKnown, accepted.key), WatchBytes, "the accepted token has bytes")
	check.Equal(t, w.Memory.ShareBytes(watchNewToken, "a"), (room/4-2)*WatchBytes, "its source has bytes")
	for _, p := range slots[1:] {
		p.Release()
		p.Release() // does nothing
	}
	slots = slots[:1]
	check.Equal(t, acquire(Flow{Level: Everyone, Caller: UserKey(jane)}, room/4)+acquire(Flow{Level: Leases, Caller: UserKey(jane)}, room), room/2-1, "of jane")
	check.Equal(t, acquire(newToken("a"), 1), 1, "no place for a new token")
	last := slots[len(slots)-1]
	if err := last.Identify(jane); err == nil || !last.ByToken() || w.Number.ShareBytes(0, UserKey(jane)) != room/2 {
		t.Error("jane has more than half")
	}
	// The system may use all the memory that is left.
	check.Equal(t, acquire(Flow{Level: System, Caller: "user admin"}, room), room/2-1, "of the system")
	last.Release()
	for _, p := range slots {
		p.Release()
	}
	if number, memory := w.Number.Usage()[0], w.Memory.Usage(); w.Count()+number.Shares+memory[watchKnown].Shares+memory[watchNewToken].Shares+memory[watchAnonymous].Shares != 0 || w.Memory.Used() != 0 {
		t.Errorf("left: %+v, %+v", number, memory)
	}
}

// TestNumbersOfWatches checks that a user, with all its tokens together, cannot exceed the bound of
// watches per user. All users together cannot exceed the total bound.
func TestNumbersOfWatches(t *testing.T) {
	connections := int64(0)
	w := newWatches(&Config{
		Watches: 3, WatchesPerUser: 2, WatchMemory: 10 * WatchBytes, Connections: func() int64 { return connections }, Kept: func() int64 { return 0 },
	})
	jane, john := Flow{Level: Everyone, Caller: "user jane"}, Flow{Level: Everyone, Caller: "user john"}
	acquire := func(f Flow, want error) *Slot {
		t.Helper()
		p, err := w.Acquire(f, 0)
		if err != want {
			t.Fatalf("%v, want %v", err, want)
		}
		return p
	}
	first := acquire(jane, nil)
	acquire(jane, nil)
	acquire(jane, errTooManyOfUser)
	token := acquire(Flow{Level: NewTokens, Caller: "a", Token: tokenPrefix + "b"}, nil)
	check.Equal[error](t, token.Identify(&user.DefaultInfo{Name: "jane"}), errTooManyOfUser, "a third of jane's")
	acquire(jane, errTooManyWatches)
	acquire(john, errTooManyWatches)
	first.Release()
	connections = 10 * WatchBytes
	acquire(john, errWatchMemory)
	check.Equal(t, w.MemoryExcess(), 2*WatchBytes, "bytes too many")
	connections = 0
	acquire(john, nil)
	check.Equal(t, [limits]uint64{w.refused[limitTotal].Load(), w.refused[limitUser].Load(), w.refused[limitMemory].Load()}, [limits]uint64{2, 2, 1}, "are refused")
}
