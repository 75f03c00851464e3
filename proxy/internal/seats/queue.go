package seats

import (
	"slices"

	"github.com/weirproject/weir/internal/serve/budget"
)

// flowQueue is the state of one flow. The lock of its Pool guards it.
type flowQueue struct {
	Flow                  // without token
	seats  *budget.Charge // those that it has
	queued int            // requests that wait
	served uint64         // the seq of the request that got a seat last; of levels by source
	ready  []*turn        // those with requests that wait, the next one first
	own    turn           // without a token
	turns  map[string]*turn
}

// taken returns the seats of the flow.
func (l *flowQueue) taken() int { return int(l.seats.Bytes()) }

// turn has what a flow has of one token.
type turn struct {
	token string
	taken int
	queue []*seatRequest // Pool.mayWait bounds it
}

// seatRequest is a request for a seat.
type seatRequest struct {
	seq     uint64
	granted chan struct{} // closed when the seat is granted, or refused
	refused bool          // another request has its place; written before granted is closed
}

// turn returns the turn of a token. It is kept by the first request for it.
func (l *flowQueue) turn(token string) *turn {
	if token == "" {
		return &l.own
	}
	if t := l.turns[token]; t != nil {
		return t
	}
	return &turn{token: token}
}

// keep keeps a turn with a seat or a request.
func (l *flowQueue) keep(t *turn) {
	if t.token == "" {
		return
	}
	if l.turns == nil {
		l.turns = map[string]*turn{}
	}
	l.turns[t.token] = t
}

// push adds a request to a turn.
func (l *flowQueue) push(t *turn, r *seatRequest) {
	l.keep(t)
	if len(t.queue) == 0 {
		l.ready = append(l.ready, t)
	}
	t.queue = append(t.queue, r)
	l.queued++
}

// pop removes the first request of a turn, which goes behind the others.
func (l *flowQueue) pop(t *turn) *seatRequest {
	r := t.queue[0]
	t.queue = t.queue[1:]
	l.queued--
	l.leaveReady(t)
	if len(t.queue) > 0 {
		l.ready = append(l.ready, t)
	}
	return r
}

// drop removes a request of a turn.
func (l *flowQueue) drop(t *turn, r *seatRequest) {
	i := slices.Index(t.queue, r)
	t.queue = slices.Delete(t.queue, i, i+1)
	l.queued--
	if len(t.queue) == 0 {
		l.leaveReady(t)
	}
	l.forgetIdle(t)
}

func (l *flowQueue) leaveReady(t *turn) {
	i := slices.Index(l.ready, t)
	l.ready = slices.Delete(l.ready, i, i+1)
}

// forgetIdle forgets a turn without seats and requests.
func (l *flowQueue) forgetIdle(t *turn) {
	if t.taken == 0 && len(t.queue) == 0 {
		t.queue = nil
		delete(l.turns, t.token)
	}
}

// before reports whether a flow gets a seat before another: by level, by seats, by source the one
// that was served longest ago, and by waiting time.
func (l *flowQueue) before(other *flowQueue) bool {
	switch {
	case l.Level != other.Level:
		return l.Level < other.Level
	case l.taken() != other.taken():
		return l.taken() < other.taken()
	case l.served != other.served:
		return l.served < other.served
	}
	return l.ready[0].queue[0].seq < other.ready[0].queue[0].seq
}
