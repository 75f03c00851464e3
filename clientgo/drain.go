package clientgo

import (
	"sync"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// drain receives the events that a stopped watch still sends: a watch around another one, such as
// watch.Filter's, may otherwise block in a send for ever. It ends when the channel is closed or a
// new watch has the same channel, and after callGrace or maxDrained events at the latest, because
// not every Stop closes the channel.
type drain struct {
	stop, done chan struct{}
	events     []watch.Event // for the next watch with the channel; read after done is closed
}

// maxDrained limits the events that a drain receives.
const maxDrained = 1000

// drains are the running drains, by channel, a <-chan watch.Event.
var drains sync.Map

// stopWatch stops a watch and drains it. It does not drain a watch.ProxyWatcher, whose senders
// check its StopChan. If the watch panics and utilruntime.ReallyCrash is false, stopWatch returns.
func stopWatch(w watch.Interface) {
	defer utilruntime.HandleCrash()
	w.Stop()
	if _, ok := w.(*watch.ProxyWatcher); ok {
		return
	}
	events, d := w.ResultChan(), &drain{stop: make(chan struct{}), done: make(chan struct{})}
	if _, runs := drains.LoadOrStore(events, d); !runs {
		go d.run(events)
	}
}

func (d *drain) run(events <-chan watch.Event) {
	defer close(d.done)
	defer drains.CompareAndDelete(events, d)
	timeout := time.NewTimer(callGrace)
	defer timeout.Stop()
	for len(d.events) < maxDrained {
		select {
		case event, ok := <-events:
			if !ok {
				return
			}
			d.events = append(d.events, event)
		case <-d.stop:
			return
		case <-timeout.C:
			return
		}
	}
}

// endDrain ends the drain of a channel that a ListerWatcher returns again. It returns the events
// that the drain has received.
func endDrain(events <-chan watch.Event) []watch.Event {
	d, ok := drains.LoadAndDelete(events)
	if !ok {
		return nil
	}
	close(d.(*drain).stop)
	<-d.(*drain).done
	return d.(*drain).events
}
