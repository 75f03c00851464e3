package doctor

import "github.com/weirproject/weir/internal/audit"

// selection is which objects a LIST or WATCH is of, by what finding them costs the server.
type selection uint8

const (
	selectAll selection = iota
	// selectBySelector: there is no index for the selector, so each object is held against it.
	selectBySelector
	selectNamespace // those of one namespace, with a selector or without
	selectNode      // by spec.nodeName, which kube-apiserver has an index for
	selectOne       // by metadata.name
	selections
)

// selectionOf returns which objects a request is of.
func selectionOf(e *audit.Event, q audit.Query) selection {
	switch {
	case q.OneObject:
		return selectOne
	case q.OneNode:
		return selectNode
	case len(e.Object.Namespace) > 0:
		return selectNamespace
	case q.Selected:
		return selectBySelector
	}
	return selectAll
}
