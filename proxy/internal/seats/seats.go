// Package seats bounds what requests cost the proxy, by the priority of their callers: the number
// of requests that run at the same time, the number that wait, the number and memory of watches,
// and the memory of responses that clients have not read. Each bound is a budget with levels. A
// figure in docs/design.md shows what each level is for.
package seats

import "time"

// Seats contains all bounds of the proxy's requests. Reads and all other short requests wait for
// seats. Long-running requests are bounded by their number and memory. A short request that asks to
// upgrade its connection is bounded by both, and releases its seat when the connection is upgraded.
type Seats struct {
	Reads, Writes *Pool
	Parsing       *Pool // for watches while their selectors are parsed
	Reviews       *Pool // for reviews of callers
	Starts        *Pool // for WATCHes while the proxy sends them the initial state
	Watches       *Watches
	Unread        Unread
}

// Config configures Seats.
type Config struct {
	// Reads and Writes are the numbers of seats for reads and for all other short requests. A request
	// waits for its seat for at most Wait.
	Reads, Writes int
	Wait          time.Duration
	// ReviewWait is how long a request waits for a seat to review its caller. It is at most the time
	// limit of a review: if the upstream does not answer, the reviews in progress have timed out by
	// then and have opened the breaker.
	ReviewWait time.Duration
	// StartWait is how long a WATCH waits for a seat to start.
	StartWait time.Duration
	// Watches bounds the number of long-running requests, and WatchesPerUser their number per user.
	Watches, WatchesPerUser int
	// WatchMemory bounds the memory of long-running requests, in bytes. ResponseMemory bounds the
	// memory of unread responses, in bytes. 0 or less: no bound.
	WatchMemory, ResponseMemory int64
	// Connections returns the bytes of open connections. Kept returns the bytes that are kept for slow
	// clients of watches. Both count as memory of watches.
	Connections, Kept func() int64
}

const (
	// maxParsing bounds the WATCHes whose selectors are being parsed. Parsing takes milliseconds.
	maxParsing = 64
	// MaxReviews bounds the concurrent reviews of callers. A known caller may use at most 35 % of
	// them. So a caller that starts a thousand watches at the same time leaves reviews to other
	// callers. New tokens may use half.
	MaxReviews = 160
	// maxQueuedReviews bounds the requests of a level that wait for a review. Each such request has a
	// seat or counts as long-running. After a start of the proxy many watches wait for the reviews of
	// the same few callers.
	maxQueuedReviews = 4096
	// maxStarts bounds the WATCHes to which the proxy is sending the initial state, which costs as
	// much CPU time as a LIST. One caller may use at most 35 % of them. maxStarts is smaller than the
	// number of seats for reads, because each start is short: a client that reads slowly does not keep
	// its seat. After another replica restarts, many watches start at the same time. All of them may
	// wait for a start, because Watches already counts them and their memory.
	maxStarts = 128
)

// New returns the Seats that c configures.
func New(c *Config) *Seats {
	return &Seats{
		Reads: NewPool(c.Reads, c.Reads, c.Wait), Writes: NewPool(c.Writes, c.Writes, c.Wait),
		Parsing: NewPool(maxParsing, maxParsing, c.Wait), Reviews: NewPool(MaxReviews, maxQueuedReviews, c.ReviewWait),
		Starts: NewPool(maxStarts, c.Watches, c.StartWait), Watches: newWatches(c), Unread: newUnread(c.ResponseMemory),
	}
}
