package doctor

// peakSeconds is how many seconds a peak keeps apart: a LIST is told of when it ends, which is a
// minute after its start at most.
const peakSeconds = 128

// peak is the most that was under way within a second. It holds 0.5 KB. The zero value has seen
// nothing.
type peak struct {
	newest int64               // the last of the seconds that are kept, since 1970
	millis [peakSeconds]uint32 // that were used within each of them
	most   uint32
}

// add adds what was under way from one time to another, in microseconds since 1970. Of what took
// longer than the seconds that are kept, the last of these count.
func (p *peak) add(from, to int64) {
	const second = narrowest
	last := (to - 1) / second
	if last <= p.newest-peakSeconds { // a log of an earlier time
		*p = peak{most: p.most}
	}
	p.advance(last)
	for from = max(from, (p.newest-peakSeconds+1)*second); from < to; {
		end := min(to, (from/second+1)*second)
		sum := &p.millis[from/second%peakSeconds]
		*sum += uint32((end - from) / 1000)
		p.most = max(p.most, *sum)
		from = end
	}
}

// advance makes a second the last of those that are kept, if it is later than that.
func (p *peak) advance(to int64) {
	for s := max(p.newest, to-peakSeconds) + 1; s <= to; s++ {
		p.millis[s%peakSeconds] = 0
	}
	p.newest = max(p.newest, to)
}
