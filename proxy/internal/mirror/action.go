package mirror

import "time"

// action is one thing that a step makes the driver do. A step after an input of the driver's
// goroutine (inBegin, inPreferred, inDescribed, inEnded or inWoke) has exactly one action that
// blocks, and it is the last. Other steps have none. The driver performs actions without a lock:
// endOthers locks other resources, and two resources may find a restore at the same time.
type action any

// Actions that block. After each but finish, the driver calls take with the result.
type (
	ask      struct{} // asks the upstream which version it prefers
	describe struct{} // asks the upstream about the resource, and makes a session
	run      struct{} // runs the session
	sleep    struct{ d time.Duration }
	finish   struct{ err error } // ends the driver
)

// Actions that do not block.
type (
	end       struct{ cause error } // ends the session
	endOthers struct{}              // ends the sessions of all other resources
	// closeSession frees a session that has ended. If expires is true, the watches of the session get
	// 410. Otherwise their clients may resume.
	closeSession struct{ expires bool }
	// cached records that the session serves: from now on the restore tracker lets no watch resume
	// from before a restore. If the proxy is shutting down, cached also ends the session's watches in
	// time.
	cached    struct{}
	checkSoon struct{} // makes the monitor check the session soon
	cancel    struct{} // cancels the context of the driver
	// note logs a line: a warning if there is an error.
	note struct {
		text   string
		err    error
		behind time.Duration // for how long the resource was behind; 0: it was not
	}
)
