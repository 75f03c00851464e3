// Package seats bounds what requests cost the proxy, by the priority of their callers: how many are
// answered at the same time and how many wait for that, watches and their memory, and the memory of
// responses that are not read. Each bound is a budget with levels; docs/design.md has a figure of
// what each level is for.
package seats

import "time"

// Seats has all bounds of the proxy's requests. Reads and all other short requests wait for seats;
// long-running requests are bounded by their number and memory. A short request that asks for an
// upgrade of its connection is bounded by both, and gives up its seat once that is upgraded.
type Seats struct {
	Reads, Writes *Pool
	Parsing       *Pool // for watches while their selectors are parsed
	Reviews       *Pool // for reviews of callers
	Starts        *Pool // for WATCHes while they are sent the state
	Watches       *Watches
	Unread        Unread
}

// Config configures Seats.
type Config struct {
	// Reads and Writes are the seats of reads and of all other short requests. They wait for Wait.
	Reads, Writes int
	Wait          time.Duration
	// ReviewWait is how long a request waits for a review of its caller. It is no longer than the
	// review: while the upstream is silent, those in progress then open the breaker.
	ReviewWait time.Duration
	// StartWait is how long a WATCH waits to begin.
	StartWait time.Duration
	// Watches bounds the long-running requests, and WatchesPerUser those of a user.
	Watches, WatchesPerUser int
	// WatchMemory bounds their bytes, and ResponseMemory those of unread responses. 0 or less: no
	// bound.
	WatchMemory, ResponseMemory int64
	// Connections returns the bytes of open connections, and Kept those that are kept for slow
	// clients of watches. Both count as memory of watches.
	Connections, Kept func() int64
}

const (
	// maxParsing bounds the WATCHes whose selectors are being parsed, which takes milliseconds.
	maxParsing = 64
	// MaxReviews bounds the concurrent reviews of callers. A known caller has 35 % of them at most,
	// so that one whose thousand watches begin at once leaves some to others; and new tokens have
	// half.
	MaxReviews = 160
	// maxQueuedReviews bounds the requests of a level that wait for such a review. Each of them has
	// a seat, or counts as long-running. After a start a herd of watches waits for the same few.
	maxQueuedReviews = 4096
	// maxStarts bounds the WATCHes that are being sent the state with which they begin, which takes
	// as much time of the CPUs as a LIST. One caller has 35 % of them at most. They are fewer than
	// the seats of reads, since all that wait for one are served soon: a client that takes its
	// state slowly has no seat for long. All watches can wait for one, since they are counted, with
	// what their waiting takes: after a restart of another replica a herd of them begins.
	maxStarts = 128
)

// New returns Seats.
func New(c *Config) *Seats {
	return &Seats{
		Reads: NewPool(c.Reads, c.Reads, c.Wait), Writes: NewPool(c.Writes, c.Writes, c.Wait),
		Parsing: NewPool(maxParsing, maxParsing, c.Wait), Reviews: NewPool(MaxReviews, maxQueuedReviews, c.ReviewWait),
		Starts: NewPool(maxStarts, c.Watches, c.StartWait), Watches: newWatches(c), Unread: newUnread(c.ResponseMemory),
	}
}
