package doctor

import (
	"time"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/measure/doctor/evidence"
)

// pattern describes a client's LISTs of all objects of a resource, or its LISTs of some objects.
type pattern struct {
	rhythm
	places  distinct
	latency time.Duration
	quorum  int64
	limited int64
	initial int64    // the number of WATCHes that start with a LIST
	spread  *atATime // nil except for LISTs of all objects of nodeResource
}

// atATime counts the machines that LIST within the same hour.
type atATime struct {
	hourly hourly
	places distinct
	most   int
}

// add records a LIST from a machine (place). at is in microseconds since 1970.
func (a *atATime) add(at int64, place []byte) {
	if a.hourly.add(at) {
		a.most, a.places = max(a.most, a.places.count()), distinct{}
	}
	a.places.add(place)
}

// add counts a LIST. A page after the first is part of an earlier LIST.
func (p *pattern) add(e *evidence.Event, q evidence.Query) {
	p.latency += e.Latency()
	if q.Continued {
		return
	}
	p.begun(e)
	if q.Quorum() {
		p.quorum++
	}
	if q.Limit > 0 {
		p.limited++
	}
}

// begun records the time and the machine of a LIST.
func (p *pattern) begun(e *evidence.Event) {
	p.places.add(e.Place())
	p.rhythm.add(e.Begun(), e.Place())
	if p.spread != nil {
		p.spread.add(e.Begun(), e.Place())
	}
}

// total returns the number of LISTs. It returns 0 if p is nil.
func (p *pattern) total() int64 {
	if p == nil {
		return 0
	}
	return p.count
}

// busiestHour returns the number of LISTs in the busiest hour. It returns 0 if p is nil.
func (p *pattern) busiestHour() int64 {
	if p == nil {
		return 0
	}
	return p.hourly.busiest
}

// machines estimates the number of machines that sent the LISTs. It returns at least 1, and 1 if p
// is nil.
func (p *pattern) machines() int64 {
	if p == nil {
		return 1
	}
	return int64(max(1, p.places.count()))
}

// sort returns a text about the average duration of the LISTs and about how the server answered
// most of them. If most of them are the start of a WATCH, the text says only that.
func (p *pattern) sort() string {
	lists := p.count - p.initial
	if p.initial > lists {
		return ", most of them at the start of a WATCH (sendInitialEvents, or no resourceVersion)"
	}
	return ", " + humanize.Seconds(p.latency.Seconds()/float64(max(1, lists))) + " each" + p.source()
}

// source returns a text about where the server read most LISTs from.
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
