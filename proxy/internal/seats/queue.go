package seats

import (
	"github.com/weirproject/weir/internal/serve/budget"
)

// flowQueue is the state of one flow. The lock of its Pool guards it.
type flowQueue struct {
	Flow
	caller *callerSeats
	taken  int
	queue  []*seatRequest // Pool.mayWait bounds it
	served uint64         // sequence number of the last grant; only in levels by source
}

// callerSeats sums up the flows of one caller in one level: one flow, or the flows of all tokens of
// a source.
type callerSeats struct {
	seats  *budget.Charge
	flows  int    // number of flowQueues
	queued int    // number of waiting requests
	served uint64 // the last grant of any of the flows
}

// taken returns the number of the caller's seats.
func (c *callerSeats) taken() int { return int(c.seats.Bytes()) }

// seatRequest is a request for a seat.
type seatRequest struct {
	seq     uint64
	granted chan struct{} // closed when the seat is granted or refused
	refused bool          // another request took its place; written before granted is closed
}

// before reports whether flow l gets a seat before the other flow. It compares their levels first,
// and then the numbers of seats that their callers have. After that, in levels by source, it
// compares the last grants of the callers, oldest first. Last it compares the turns of the flows.
func (l *flowQueue) before(other *flowQueue) bool {
	switch c, o := l.caller, other.caller; {
	case l.Level != other.Level:
		return l.Level < other.Level
	case c.taken() != o.taken():
		return c.taken() < o.taken()
	case c.served != o.served:
		return c.served < o.served
	}
	return l.turn() < other.turn()
}

// turn orders the flows of one caller, lowest first. It is the sequence number of the flow's oldest
// waiting request, or of the flow's last grant if that number is higher. So in a level by source, a
// flow that gets a seat goes behind the other waiting flows.
func (l *flowQueue) turn() uint64 { return max(l.queue[0].seq, l.served) }

// mayDisplace reports whether a request of l may take the place of a waiting request of another
// flow. It may if the other source still has more waiting requests afterwards. If both flows have
// the same source, the other token must still have more.
func (l *flowQueue) mayDisplace(other *flowQueue) bool {
	if l.caller == other.caller {
		return len(other.queue) > len(l.queue)+1
	}
	return l.Level == other.Level && other.caller.queued > l.caller.queued+1
}

// isLonger reports whether more requests of l's caller wait than of the other flow's caller. If the
// numbers are equal, it compares the numbers of requests that wait in the two flows.
func (l *flowQueue) isLonger(other *flowQueue) bool {
	if l.caller.queued != other.caller.queued {
		return l.caller.queued > other.caller.queued
	}
	return len(l.queue) > len(other.queue)
}
