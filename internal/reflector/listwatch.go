package reflector

import "time"

// ListWatch is the part of Config that packages offer to their users, as a struct of their own. M,
// C and B are their types of Mode, Consistency and Backoff. A conversion of such a struct to
// ListWatch does not compile when the fields of the two differ.
type ListWatch[M, C ~uint8, B backoff] struct {
	Mode             M
	Consistency      C
	PageSize         int64
	WatchTimeout     time.Duration
	BookmarkDeadline time.Duration
	MaxLists         int
	Backoff          B
}

// backoff is satisfied by the structs with the fields of Backoff.
type backoff interface {
	~struct {
		Min     time.Duration
		Max     time.Duration
		Denied  time.Duration
		Healthy time.Duration
		Random  func() float64
	}
}

// Config returns a Config with the fields of l.
func (l ListWatch[M, C, B]) Config() Config {
	return Config{
		Mode:             Mode(l.Mode),
		Consistency:      Consistency(l.Consistency),
		PageSize:         l.PageSize,
		WatchTimeout:     l.WatchTimeout,
		BookmarkDeadline: l.BookmarkDeadline,
		MaxLists:         l.MaxLists,
		Backoff:          Backoff(l.Backoff),
	}
}
