package seats

import (
	"slices"

	"github.com/weirproject/weir/internal/serve/budget"
)

// flowQueue is the state of one flow. The lock of its Pool guards it.
type flowQueue struct {
	Flow                  // without a token
	seats  *budget.Charge // the seats of the flow
	queued int            // number of waiting requests
	served uint64         // sequence number of the last grant; only in levels by source
	ready  []*turn        // the turns (tokens) with waiting requests, the next one first
	own    turn           // the turn of requests without a token
	turns  map[string]*turn
}

// taken returns the number of the flow's seats.
func (l *flowQueue) taken() int { return int(l.seats.Bytes()) }

// turn is the part of a flow that belongs to one token: its seats and waiting requests.
type turn struct {
	token string
	taken int
	queue []*seatRequest // Pool.mayWait bounds it
}

// seatRequest is a request for a seat.
type seatRequest struct {
	seq     uint64
	granted chan struct{} // closed when the seat is granted or refused
	refused bool          // another request took its place; written before granted is closed
}

// turn returns the seats and waiting requests of a token. A new turn is not in l.turns until keep
// adds it.
func (l *flowQueue) turn(token string) *turn {
	if token == "" {
		return &l.own
	}
	if t := l.turns[token]; t != nil {
		return t
	}
	return &turn{token: token}
}

// keep adds a turn to l.turns, because it has a seat or a waiting request.
func (l *flowQueue) keep(t *turn) {
	if t.token == "" {
		return
	}
	if l.turns == nil {
		l.turns = map[string]*turn{}
	}
	l.turns[t.token] = t
}

// push appends a request to the queue of turn t.
func (l *flowQueue) push(t *turn, r *seatRequest) {
	l.keep(t)
	if len(t.queue) == 0 {
		l.ready = append(l.ready, t)
	}
	t.queue = append(t.queue, r)
	l.queued++
}

// pop removes and returns the first request of turn t. The turn then moves behind the turns of the
// other tokens.
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

// drop removes a request from the queue of turn t.
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

// forgetIdle removes turn t if its token has neither seats nor waiting requests.
func (l *flowQueue) forgetIdle(t *turn) {
	if t.taken == 0 && len(t.queue) == 0 {
		t.queue = nil
		delete(l.turns, t.token)
	}
}

// before reports whether flow l gets a seat before the flow other. It compares in this order: the
// levels, the numbers of seats, the last grants (in levels by source, oldest first), and the ages
// of the first waiting requests.
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
