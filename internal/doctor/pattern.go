package doctor

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirproject/weir/internal/quantity"
)

// total returns how many LISTs there were of a sort, none of nil.
func (p *pattern) total() int64 {
	if p == nil {
		return 0
	}
	return p.count
}

// busiestHour returns how many LISTs there were of a sort in the hour with the most, none of nil.
func (p *pattern) busiestHour() int64 {
	if p == nil {
		return 0
	}
	return p.hourly.busiest
}

// cleans reports whether LISTs come with the deletion of what they are of.
func (u *usage) cleans() bool {
	return cleanings*u.tally[verbDeleteCollection].requests >= max(1, u.part.total())
}

// ofAll returns how many LISTs of a pattern read all objects.
func (u *usage) ofAll(p *pattern) int64 {
	if p == u.whole {
		return p.count
	}
	return 0
}

// machines estimates how many machines the LISTs came from, at least 1, and 1 of nil.
func (p *pattern) machines() int64 {
	if p == nil {
		return 1
	}
	return int64(max(1, p.places.count()))
}

// sort says how long a LIST took, and what most of them ask the server to do.
func (p *pattern) sort() string {
	lists := p.count - p.initial
	if p.initial > lists {
		return ", most of them at the start of a WATCH (sendInitialEvents, or no resourceVersion)"
	}
	return ", " + quantity.Seconds(p.latency.Seconds()/float64(max(1, lists))) + " each" + p.source()
}

// source says where the answers come from.
func (p *pattern) source() string {
	text := ", from the watch cache"
	if 2*p.quorum > p.count {
		text = ", without resourceVersion (a quorum read)"
	}
	if 2*p.limited < p.count {
		text += ", unpaged"
	}
	return text
}

// duration writes a time for people, in the unit that suits it: 10 h, 1.5 min, 30 s.
func duration(d time.Duration) string {
	switch {
	case d >= time.Hour:
		return round(d.Hours()) + " h"
	case d >= time.Minute:
		return round(d.Minutes()) + " min"
	}
	return round(d.Seconds()) + " s"
}

// round writes a number with three digits that mean something, and no zeros behind the point.
func round(v float64) string {
	text := quantity.Number(v)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// watchMachines estimates how many machines the WATCHes came from, at least 1.
func (u *usage) watchMachines() int64 {
	if u.watchPlaces == nil {
		return 1
	}
	return int64(max(1, u.watchPlaces.count()))
}

// expired says how many WATCHes were refused because they were too old.
func (w WatchCounts) expired() string {
	if w.Expired == 0 {
		return ""
	}
	return fmt.Sprintf("; %s more were refused with 410", quantity.Count(w.Expired))
}
