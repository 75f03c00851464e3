package doctor

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/weirproject/weir/measure/doctor/evidence"
)

// The values of ObjectsFrom and BytesFrom: where a size is from.
const (
	FromFlag    = "told"      // from a flag of the command
	FromServer  = "server"    // from a server's metrics
	FromLog     = "estimated" // from the names in the log
	FromDefault = "assumed"   // a usual value
)

// Size contains the number of objects of a resource and the size of one object.
type Size struct {
	Resource    string  `json:"resource"`
	Objects     int64   `json:"objects"` // 0 if unknown; then nothing is predicted
	ObjectsFrom string  `json:"objectsFrom,omitempty"`
	Bytes       float64 `json:"bytes"` // the stored size of one object
	BytesFrom   string  `json:"bytesFrom"`
}

// The assumed sizes of objects, in bytes. A pod with two containers and managedFields has 5 KB, and
// objects of most other common kinds have less.
const (
	podBytes   = 5000
	otherBytes = 2000
	podsOnNode = 30 // assumed if the number of nodes is unknown
)

// size returns the size of a resource.
func (d *Doctor) size(resource string) Size {
	s := Size{Resource: resource, Bytes: otherBytes, BytesFrom: FromDefault}
	if resource == nodeResource {
		s.Bytes = podBytes
	}
	if n := d.options.Bytes[resource]; n > 0 {
		s.Bytes, s.BytesFrom = float64(n), sourceOf(d.options.BytesAsked[resource])
	}
	if n, known := d.options.Objects[resource]; known {
		s.Objects, s.ObjectsFrom = n, sourceOf(d.options.ObjectsAsked[resource])
	} else if n := d.census.objects(resource); n > 0 {
		s.Objects, s.ObjectsFrom = n, FromLog
	}
	return s
}

// sourceOf returns where a size in the options is from.
func sourceOf(byServer bool) string {
	if byServer {
		return FromServer
	}
	return FromFlag
}

// share returns the share of a resource's objects that one LIST sends, and the share of the objects
// that the server compares with the LIST's selector.
func (d *Doctor) share(s Size, sel selection) (sent, looked float64) {
	all := float64(s.Objects)
	switch sel {
	case selectOne:
		return 1 / all, 1 / all
	case selectNode:
		each := min(1, podsOnNode/all)
		if nodes := d.size("nodes").Objects; nodes > 0 {
			each = 1 / float64(nodes)
		}
		return each, each
	case selectNamespace:
		part := d.census.perNamespace(s.Resource)
		return part, part
	case selectBySelector:
		return selectedShare, 1
	}
	return 1, 0
}

// selectedShare is the assumed share of objects that a selector matches. An error in this share
// matters little: the server must compare all objects with the selector, and that costs more than
// sending the objects that match.
const selectedShare = 0.01

// getsProtobuf reports whether a client is assumed to receive protobuf. There is no protobuf of
// custom resources, and kubectl asks for JSON.
func getsProtobuf(c Client, resource string) bool {
	resource, _, _ = strings.Cut(resource, "/")
	_, group, _ := strings.Cut(resource, ".")
	own := strings.HasSuffix(group, ".k8s.io") && !strings.HasSuffix(group, ".x-k8s.io")
	custom := strings.Contains(group, ".") && !own
	return !custom && !c.isKubectl()
}

// sizes returns the sizes of the resources that clients LIST, and of the resources of WATCHes that
// start with all objects. The sizes are ordered by the resources' names. sizes omits a resource if
// the number of its objects is unknown.
func (d *Doctor) sizes() []Size {
	listed := map[string]bool{}
	for _, c := range d.clients.least {
		for name, u := range c.usages {
			if name != other && (u.tally[verbList].requests > 0 || u.watches.Initial > 0) {
				listed[name] = true
			}
		}
	}
	out := []Size{}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if s := d.size(name); s.Objects > 0 {
			out = append(out, s)
		}
	}
	return out
}

// maxCensus limits the number of resources whose objects are counted. The counts use 4 MB.
const maxCensus = 4096

// census estimates the number of objects of each resource from the names in the log.
type census map[string]*counted

// counted contains the counts of a resource's objects.
type counted struct {
	names, gone distinct // of all objects, and of deleted objects
	namespaces  distinct
	writes      int64               // of these objects; the server sends each write to every WATCH
	watched     [selections]float64 // for how many seconds WATCHes were open, added up
}

// add counts the object of a request, and the object's namespace.
func (c census) add(e *evidence.Event, v verb, t *target) {
	if e.Code >= 400 || len(e.Object.Resource) == 0 {
		return
	}
	name, _, _ := bytes.Cut(t.resource, []byte("/"))
	k := c[string(name)]
	if k == nil {
		if len(c) >= maxCensus {
			return
		}
		k = &counted{}
		c[string(name)] = k
	}
	k.namespaces.add(e.Object.Namespace)
	switch v {
	case verbCreate, verbUpdate, verbPatch, verbDelete:
		if ofObject(e.Object.Subresource) {
			k.writes++
		}
	}
	if len(e.Object.Name) == 0 {
		return
	}
	k.names.addHash(t.hash)
	if v == verbDelete && len(e.Object.Subresource) == 0 {
		k.gone.addHash(t.hash)
	}
}

// watched records that a WATCH was open for a number of seconds.
func (c census) watched(resource string, of selection, seconds float64) {
	if k := c[resource]; k != nil {
		k.watched[of] += max(0, seconds)
	}
}

// objects estimates the number of objects at the end of the log. It returns 0 if the number is
// unknown.
func (c census) objects(resource string) int64 {
	if k := c[resource]; k != nil {
		return max(0, int64(k.names.count()-k.gone.count()))
	}
	return 0
}

// perNamespace returns the share of the objects that is in one namespace, on average.
func (c census) perNamespace(resource string) float64 {
	if k := c[resource]; k != nil {
		return 1 / float64(max(1, k.namespaces.count()))
	}
	return 1
}

// writes returns the number of writes of a resource's objects.
func (c census) writes(resource string) float64 {
	if k := c[resource]; k != nil {
		return float64(k.writes)
	}
	return 0
}
