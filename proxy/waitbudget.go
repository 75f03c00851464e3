package proxy

import "time"

const (
	// seatGrace and seatPace bound how long a client with a seat is waited for, see waitBudget.
	// Package watchcache counts bytes before compression and has a pace of eight times as many; a
	// forwarded answer may come compressed.
	seatGrace = time.Minute
	seatPace  = 32 << 10 // bytes a second
)

// waitBudget bounds how long one request keeps a seat because of its client, whose body comes a
// little at a time, or who takes the answer so. At any time the client must have been waited for no
// longer than grace, and a second for each seatPace bytes. The time in which the upstream does
// nothing does not count.
type waitBudget struct {
	grace  time.Duration
	bytes  int64
	waited time.Duration
}

// left returns how long the client may be waited for now. It is not positive if the client is too
// slow.
func (b *waitBudget) left() time.Duration {
	return b.grace + time.Duration(float64(b.bytes)/seatPace*float64(time.Second)) - b.waited
}

// moved notes that the client was waited for since begun, and has sent or taken n bytes.
func (b *waitBudget) moved(n int, begun time.Time) {
	b.bytes += int64(n)
	b.waited += time.Since(begun)
}
