package doctor

import (
	"time"

	"github.com/weirproject/weir/internal/audit"
)

// tally counts one verb.
type tally struct {
	requests int64
	latency  time.Duration
}

// listTally counts LISTs of the same selection, without pages behind the first.
type listTally struct {
	lists  int64
	quorum int64
	paged  int64 // with a limit that the server heeds: it does not where any version will do
}

func (t *listTally) add(q audit.Query) {
	if q.Continued {
		return
	}
	t.lists++
	if q.Quorum() {
		t.quorum++
		if q.Limited {
			t.paged++
		}
	}
}

// watchTally counts WATCHes of the same selection.
type watchTally struct {
	ended, open int64
	initial     int64 // that began with a LIST
}

func (t *watchTally) add(q audit.Query) {
	t.ended++
	if q.InitialList() {
		t.initial++
	}
}
