package doctor

import "github.com/weirproject/weir/internal/audit"

// ask is which objects a LIST or WATCH is of, by what finding them costs the server.
type ask uint8

const (
	askAll       ask = iota
	askSelected      // by a selector that there is no index for: each object is held against it
	askNamespace     // those of one namespace, with a selector or without
	askNode          // by spec.nodeName, which kube-apiserver has an index for
	askOne           // by metadata.name
	asks
)

// askOf returns which objects a request is of.
func askOf(e *audit.Event, q audit.Query) ask {
	switch {
	case q.OneObject:
		return askOne
	case q.OneNode:
		return askNode
	case len(e.Object.Namespace) > 0:
		return askNamespace
	case q.Selected:
		return askSelected
	}
	return askAll
}

// asked counts LISTs of the same objects, without pages behind the first.
type asked struct {
	lists  int64
	quorum int64
	paged  int64 // with a limit that the server heeds: it does not where any version will do
}

func (a *asked) add(q audit.Query) {
	if q.Continued {
		return
	}
	a.lists++
	if q.Quorum() {
		a.quorum++
		if q.Limited {
			a.paged++
		}
	}
}

// watchedParts counts WATCHes of the same objects.
type watchedParts struct {
	ended, open int64
	initial     int64 // that began with a LIST
}

func (w *watchedParts) add(q audit.Query) {
	w.ended++
	if q.InitialList {
		w.initial++
	}
}
