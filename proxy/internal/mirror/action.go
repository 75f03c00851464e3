package mirror

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// action is something that the driver, a Resource, must do after a step. Some inputs come from the
// driver's goroutine: inBegin, inPreferred, inDescribed, inEnded and inWoke. After a step of such
// an input, the last action blocks, and no other action does. After a step of any other input, no
// action blocks. The driver performs actions without a lock. Otherwise two resources that find a
// restore at the same time would deadlock, because endOthers locks other resources.
type action any

// Actions that block. After each of them except finish, the driver calls take with the result.
type (
	ask      struct{} // asks the upstream which version it prefers
	describe struct{} // asks the upstream about the resource, and makes a session
	run      struct{} // runs the session
	sleep    struct{ d time.Duration }
	finish   struct{ err error } // ends the driver
)

// Actions that do not block.
type (
	// move registers the resource in its present version; from is the version before.
	move      struct{ from schema.GroupVersionResource }
	end       struct{ cause error } // ends the session
	endOthers struct{}              // ends the sessions of all other resources
	// closeSession frees a session that has ended. If expires is true, the watches of the session get
	// 410. Otherwise their clients may resume.
	closeSession struct{ expires bool }
	// cached is the first action after the session has begun to serve. It notifies the restore
	// tracker, which until now has refused watches from before a restore. From now on the session
	// decides which watches may resume. If the proxy is shutting down, cached also makes the session's
	// watches end by the time at which all watches must have ended.
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
