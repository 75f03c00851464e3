package doctor

import (
	"math"
	"slices"
	"time"
)

const (
	// maxBursts bounds the bursts that are kept of one sort of LISTs: 0.4 KB for each gap.
	maxBursts = 16
	// burstLists are of one resource: a restart LISTs it once, or once for each replica.
	burstLists = 10
	// burstRatio is how much smaller than the largest burst one is that does not count.
	burstRatio = 8
	// inBursts and withinBursts are shares of all LISTs: of those in bursts with a period, and
	// in bursts at all.
	inBursts     = 0.5
	withinBursts = 0.8
	// periodTolerance is how far the times between bursts may be apart: clocks are exact, but what
	// they start takes its time, and controller-runtime draws each period.
	periodTolerance = 0.1
	periodAlike     = 0.75 // of the times between bursts, where there are many

	resyncDefault = 10 * time.Hour // of controller-runtime and of knative
	// Bursts that were seen twice are of 100 LISTs or more, and of as many within a factor.
	twiceLists  = 100
	twiceFactor = 2
)

// burstGaps are the times without a LIST that end a burst. The shorter one finds bursts of a client
// that LISTs between them as well.
var burstGaps = [...]time.Duration{2 * time.Minute, 5 * time.Second}

// burst is LISTs that follow each other within a gap.
type burst struct {
	start  int64  // microseconds since 1970
	places uint64 // the machines: a bit for each, by hash
	count  int64
}

// bursts keeps those that are over. The zero value has none.
type bursts struct {
	now  burst   // that may continue
	last int64   // when the last LIST came, in microseconds since 1970
	kept []burst // the first maxBursts that count
	n    int64   // of all that count
	sum  int64   // LISTs in those
	most int64   // LISTs in the largest
}

// add notes a LIST. place has the bit of its machine.
func (b *bursts) add(at int64, gap time.Duration, place uint64) {
	since := at - b.last
	if since > gap.Microseconds() || since < -restart.Microseconds() {
		b.close()
		b.now, b.last = burst{start: at}, at
	}
	b.last = max(b.last, at)
	b.now.count++
	b.now.places |= place
}

// close keeps the burst that is over. Those that are much smaller than another one do not count.
func (b *bursts) close() {
	one := b.now
	b.now = burst{}
	if one.count < max(burstLists, b.most/burstRatio) {
		return
	}
	if one.count > burstRatio*b.most {
		b.kept, b.n, b.sum = b.kept[:0], 0, 0
	}
	if len(b.kept) < maxBursts {
		b.kept = append(b.kept, one)
	}
	b.n++
	b.sum += one.count
	b.most = max(b.most, one.count)
}

// explain reports whether something but a resync caused a burst: a restart, or a rollout. before is
// the one that it may repeat, or nil.
type explain func(before *burst, b burst) bool

// period is how bursts repeat.
type period struct {
	every  time.Duration
	seen   int64
	lists  int64 // in all bursts
	proven bool
}

// period returns how the bursts repeat, if they do.
func (b *bursts) period(explained explain) (period, bool) {
	p := period{seen: b.n, lists: b.sum, proven: true}
	var gaps []int64
	for i := range len(b.kept) - 1 {
		gaps = append(gaps, b.kept[i+1].start-b.kept[i].start)
	}
	slices.Sort(gaps)
	if n := len(gaps); n >= 2 {
		median, near := gaps[n/2], 0
		for _, g := range gaps {
			if isNear(g, median) {
				near++
			}
		}
		if n == 2 && near == 2 || n > 2 && float64(near) >= periodAlike*float64(n) {
			p.every = time.Duration(median) * time.Microsecond
			return p, true
		}
	}
	return p, b.repeatDefault(&p, explained)
}

// repeatDefault reports whether the bursts repeat after 10 h ± 10 %, also where those of several
// informers, each with its own period, are mixed.
func (b *bursts) repeatDefault(p *period, explained explain) bool {
	target := resyncDefault.Microseconds()
	var links, sum int64
	var from, to *burst
	used := make([]bool, len(b.kept))
	for i := range b.kept {
		one := &b.kept[i]
		at := slices.IndexFunc(b.kept[:i], func(before burst) bool {
			return isNear(one.start-before.start, target) && !explained(&before, *one)
		})
		if at < 0 {
			continue
		}
		used[at], used[i] = true, true
		from, to = &b.kept[at], one
		links, sum = links+1, sum+one.start-from.start
	}
	if links == 0 {
		return false
	}
	p.every = time.Duration(sum/links) * time.Microsecond
	p.seen, p.lists, p.proven = 0, 0, links >= 2
	for i, one := range b.kept {
		switch {
		case used[i]:
			p.seen++
			p.lists += one.count
		case explained(nil, one):
		case !p.proven || float64(one.start-b.kept[0].start) >= (1-periodTolerance)*float64(target):
			return false
		}
	}
	return p.proven || min(from.count, to.count) >= max(twiceLists, max(from.count, to.count)/twiceFactor)
}

// isNear reports whether a time is another one, within the tolerance.
func isNear(v, target int64) bool {
	return math.Abs(float64(v-target)) <= periodTolerance*float64(target)
}
