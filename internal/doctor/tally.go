package doctor

import (
	"math"
	"time"

	"github.com/weirproject/weir/internal/audit"
)

// tally counts one verb.
type tally struct {
	requests int64
	latency  time.Duration
}

// listTally counts LISTs of the same selection. A page behind the first belongs to its LIST.
type listTally struct {
	lists  int64
	quorum int64
	paged  int64 // with a limit that the server heeds: it does not where any version will do
	// limits is the sum of the limits of all pages, infinite if one has none: no more objects than
	// these came in pages.
	limits float64
}

func (t *listTally) add(q audit.Query) {
	if q.Continued && !q.FirstOnly() {
		t.addLimit(q)
		return
	}
	t.lists++
	if q.Quorum() {
		t.quorum++
		if q.Limit > 0 {
			t.paged++
			t.addLimit(q)
		}
	}
}

func (t *listTally) addLimit(q audit.Query) {
	if q.Limit == 0 {
		t.limits = math.Inf(1)
		return
	}
	t.limits += float64(q.Limit)
}

// objectsEach returns how many objects a LIST in pages had at most.
func (t *listTally) objectsEach() float64 { return t.limits / float64(max(1, t.paged)) }

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
