package store

// Notifier is told of cursors that may have something for Next.
type Notifier interface {
	// Notify gets the owners of cursors that were signalled at one time; it must not keep the
	// slice. It must neither block nor use the store or its cursors, whose locks may be held.
	Notify(owners []any)
}

func (c *Cursor) signalNow() {
	if c.notifier != nil {
		c.notifier.Notify(c.owner[:])
		return
	}
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// signal signals cursors, those of the first notifier by one call. The handlers of a store have the
// same notifier. signal returns owners, emptied, to be used again.
func signal(cursors []*Cursor, owners []any) []any {
	var to Notifier
	for _, c := range cursors {
		if to == nil {
			to = c.notifier
		}
		if to == nil || c.notifier != to {
			c.signalNow()
		} else {
			owners = append(owners, c.owner[0])
		}
	}
	if to != nil {
		to.Notify(owners)
	}
	clear(owners)
	return owners[:0]
}

// Ready returns a channel of capacity one, nil if there is a notifier. It is signalled when there
// may be something for Next, when the store becomes synced, and when the cursor is closed. A reader
// loops: it calls Next until that returns 0, and then waits on Ready.
func (c *Cursor) Ready() <-chan struct{} { return c.ready }
