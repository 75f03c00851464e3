package audit

import "time"

// farOff is how far an event's time may be from those around it. The lines of a log are in the
// order of time but for seconds; a server that was down leaves a gap, behind which events go on.
const farOff = int64(24 * time.Hour / time.Microsecond)

// order skips single events whose time is that of a wrong clock or of a damaged line. One of those
// would hold back its log until all others are read, and stretch the report over decades. An event
// is skipped if the two next to it are near each other and it is far from them: the ones on both
// sides, or, at the start and the end of a log, the two that are there. The zero value is ready.
type order struct {
	begun     bool
	last      int64    // the time of the event that was returned last
	agreed    bool     // the one before it was near it
	lookahead []*Event // read and not returned, on bytes of their own
	misdated  int64
}

func near(a, b int64) bool { return max(a, b)-min(a, b) <= farOff }

// next returns the next event that read gives and that is not skipped.
func (o *order) next(read func() (*Event, error)) (*Event, error) {
	for {
		e, err := o.pull(read)
		if err != nil {
			return nil, err
		}
		if o.begun && near(e.Staged, o.last) {
			o.agreed, o.last = true, e.Staged
			return e, nil
		}
		e = e.clone()
		if o.contradicted(e.Staged, read) {
			o.misdated++
			continue
		}
		o.begun, o.agreed, o.last = true, false, e.Staged
		return e, nil
	}
}

// pull returns the next event, of those in the lookahead first.
func (o *order) pull(read func() (*Event, error)) (*Event, error) {
	if len(o.lookahead) == 0 {
		return read()
	}
	e := o.lookahead[0]
	o.lookahead = o.lookahead[1:]
	return e, nil
}

// contradicted reports whether the events around one that is at a time, or the first, say that its
// time is wrong. What it reads for that is returned later.
func (o *order) contradicted(at int64, read func() (*Event, error)) bool {
	want := 1
	if !o.begun {
		want = 2
	}
	for len(o.lookahead) < want {
		e, err := read()
		if err != nil {
			break // the next read tells it again
		}
		o.lookahead = append(o.lookahead, e.clone())
	}
	switch n := len(o.lookahead); {
	case n < want:
		return o.begun && o.agreed && n == 0
	case o.begun:
		return near(o.lookahead[0].Staged, o.last) && !near(o.lookahead[0].Staged, at)
	}
	return near(o.lookahead[0].Staged, o.lookahead[1].Staged) && !near(o.lookahead[0].Staged, at)
}
