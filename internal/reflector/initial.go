package reflector

import (
	"time"

	"github.com/weirproject/weir/internal/wire"
)

// initialStep is by how much an event prolongs the wait for the end of the initial events that may as well be a change. A server
// sends initial events faster than that.
const initialStep = time.Millisecond

// initialEvents waits for the bookmark that ends the initial events of a watch. A server that does not know of them sends the state
// and then its changes, and never the bookmark. Its timer is stopped by whoever closes the watch.
type initialEvents struct {
	deadline time.Duration
	timer    *time.Timer
	until    time.Time
	newest   []byte // the newest resourceVersion that came
}

func awaitInitial(deadline time.Duration, late func()) *initialEvents {
	return &initialEvents{deadline: deadline, timer: time.AfterFunc(deadline, late), until: time.Now().Add(deadline)}
}

// came notes an event. The state comes as ADDED events in the order of keys, so most of them are older than one that came before. What is
// newer than all before it may be a change.
func (i *initialEvents) came(t wire.EventType, rv []byte) {
	switch {
	case t == wire.Added && (len(i.newest) == 0 || older(string(rv), string(i.newest))):
		i.until = time.Now().Add(i.deadline)
	default:
		i.until = i.until.Add(initialStep)
	}
	if !older(string(rv), string(i.newest)) {
		i.newest = append(i.newest[:0], rv...)
	}
	i.timer.Reset(time.Until(i.until))
}
