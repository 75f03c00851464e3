// Package seats bounds what requests cost the proxy, by the priority of their callers: the number
// of requests that run at the same time, the number that wait, the number and memory of watches,
// and the memory of responses that clients have not read. Each bound is a budget with levels. A
// figure in docs/explanation/servers.md shows what each level is for.
package seats

import (
	"time"
)

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

// Metrics reports the metrics of Seats by calls of gauge and counter. In labels, names and values
// alternate.
func (s *Seats) Metrics(gauge, counter func(name, help string, value float64, labels ...string)) {
	now := time.Now()
	for requestKind, p := range map[string]*Pool{"readOnly": s.Reads, "mutating": s.Writes} {
		gauge("apiserver_current_inflight_requests", "The largest number of requests that were in progress at the same time in the last second.",
			float64(p.PeakInUse(now)), "request_kind", requestKind)
	}
	for requestKind, p := range map[string]*Pool{"readOnly": s.Reads, "mutating": s.Writes, "watchStart": s.Starts} {
		taken, waiting := p.Counts()
		for level := range Levels {
			gauge("weir_proxy_seats", "Requests that have a seat.", float64(taken[level]), "request_kind", requestKind, "level", level.String())
			gauge("weir_proxy_seat_queue_length", "Requests that wait for a seat.", float64(waiting[level]), "request_kind", requestKind, "level", level.String())
		}
	}
	w := s.Watches
	gauge("weir_proxy_watch_memory_budget_bytes", "The limit of the memory of all watches; 0: no limit.", float64(max(w.Memory.Limit(), 0)))
	gauge("weir_proxy_watch_memory_used_bytes", "The memory of all watches, including their connections and the changes that wait for slow ones.", float64(w.Memory.Used()))
	gauge("weir_proxy_watch_memory_late_bytes", "The memory of the changes that wait for slow watches.", float64(w.kept()))
	for limit, why := range [limits]string{limitTotal: "all", limitUser: "user", limitMemory: "memory"} {
		counter("weir_proxy_watches_refused_total",
			"Watches, logs and upgraded connections that the proxy refused. all: too many of all users; user: too many of one user; memory: the memory for watches was used up.",
			float64(w.refused[limit].Load()), "for", why)
	}
	gauge("weir_proxy_response_memory_budget_bytes", "The limit of the memory of responses that wait for their clients to read them; 0: no limit.", float64(max(s.Unread.Limit(), 0)))
	for _, l := range s.Unread.Usage() {
		gauge("weir_proxy_response_memory_used_bytes", "The memory of responses that wait for their clients to read them, of callers that are known or unknown.",
			float64(l.Used), "level", l.Level)
		counter("weir_proxy_response_memory_refused_total",
			"Reads that the proxy refused because their callers' unread responses had used up their memory.", float64(l.Refused), "level", l.Level)
	}
}
