package mirror

import "time"

// action is one thing that a step makes the driver do. Steps after inputs of the driver's goroutine
// (inBegin, inPreferred, inDescribed, inEnded and inWoke) have exactly one action that blocks, and
// it is the last. Other steps have none. No action is performed under a lock, since endOthers takes
// those of other resources, and two resources may find a restore at the same time.
type action any

// Actions that block. The driver takes an input with what came of each but finish.
type (
	ask      struct{} // asks the upstream which version it prefers
	describe struct{} // asks the upstream about the resource, and makes a session
	run      struct{} // runs the session
	sleep    struct{ d time.Duration }
	finish   struct{ err error } // ends the driver
)

// Actions that do not block.
type (
	end       struct{ cause error } // makes the session end
	endOthers struct{}              // makes the sessions of all other resources end
	// closeSession frees a session that has ended. If it expires, its watches end with 410, else
	// their clients may resume.
	closeSession struct{ expires bool }
	// cached notes that the session serves: from now on watches cannot resume from before a restore.
	// It has watches end if the proxy is shutting down.
	cached    struct{}
	checkSoon struct{} // makes the monitor check soon
	cancel    struct{} // cancels the context of the driver
	// note writes a line to the log: a warning if there is an error.
	note struct {
		text   string
		err    error
		behind time.Duration // how long the resource was behind; 0: it was not
	}
)
