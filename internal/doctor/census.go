package doctor

import (
	"github.com/weirproject/weir/internal/audit"
)

// maxCensus bounds the resources whose objects are counted: 4 MB.
const maxCensus = 4096

// census estimates, by resource, how many objects there are, from the names that are in the log.
type census map[string]*counted

// counted is what is known of the objects of a resource.
type counted struct {
	names, gone distinct // of objects that there were, and that were deleted
	namespaces  distinct
	writes      int64               // each is an event to every WATCH
	watched     [selections]float64 // seconds that WATCHes were open, of all together
}

// add counts the object that a request is about, and its namespace.
func (c census) add(e *audit.Event, v verb) {
	if e.Code >= 400 || len(e.Object.Resource) == 0 {
		return
	}
	var space [2*maxName + 1]byte
	o := e.Object
	o.Subresource = nil
	name := appendResource(space[:0], o)
	k := c[string(name)]
	if k == nil {
		if len(c) >= maxCensus {
			return
		}
		k = &counted{}
		c[string(name)] = k
	}
	k.namespaces.add(o.Namespace)
	switch v {
	case verbCreate, verbUpdate, verbPatch, verbDelete:
		if ofObject(e.Object.Subresource) {
			k.writes++
		}
	}
	if len(o.Name) == 0 {
		return
	}
	object := appendObject(space[:0], o)
	k.names.add(object)
	if v == verbDelete && len(e.Object.Subresource) == 0 {
		k.gone.add(object)
	}
}

// watched notes that a WATCH was open for some seconds.
func (c census) watched(resource string, of selection, seconds float64) {
	if k := c[resource]; k != nil {
		k.watched[of] += max(0, seconds)
	}
}

// objects estimates how many objects there are at the end of the log; 0: nobody knows.
func (c census) objects(resource string) int64 {
	if k := c[resource]; k != nil {
		return max(0, int64(k.names.count()-k.gone.count()))
	}
	return 0
}

// perNamespace returns the share of the objects that one namespace has, as if all had the same.
func (c census) perNamespace(resource string) float64 {
	if k := c[resource]; k != nil {
		return 1 / float64(max(1, k.namespaces.count()))
	}
	return 1
}

// writes returns how often objects of a resource were written.
func (c census) writes(resource string) float64 {
	if k := c[resource]; k != nil {
		return float64(k.writes)
	}
	return 0
}
