package doctor

import (
	"maps"
	"slices"
	"strings"
)

// Where a size is known from.
const (
	FromFlag   = "told"      // by whoever ran the command
	FromServer = "server"    // its metrics
	FromLog    = "estimated" // from the names in the log
	FromNobody = "assumed"   // as in many clusters
)

// Size is how many objects a resource has, and how large one is.
type Size struct {
	Resource    string  `json:"resource"`
	Objects     int64   `json:"objects"` // 0: nobody knows, and nothing is predicted
	ObjectsFrom string  `json:"objectsFrom,omitempty"`
	Bytes       float64 `json:"bytes"` // of one, as it is stored
	BytesFrom   string  `json:"bytesFrom"`
}

// What objects are taken for whose size nobody tells: a pod with two containers and its
// managedFields has 5 KB, and of the other common kinds most have less.
const (
	podBytes   = 5000
	otherBytes = 2000
	podsOnNode = 30 // where nobody knows how many nodes there are
)

// size returns the size of a resource.
func (d *Doctor) size(resource string) Size {
	s := Size{Resource: resource, Bytes: otherBytes, BytesFrom: FromNobody}
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

// sourceOf returns where a size in the options is known from.
func sourceOf(byServer bool) string {
	if byServer {
		return FromServer
	}
	return FromFlag
}

// share returns which share of a resource's objects one LIST sends, and which one it looks at.
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

// selectedShare is the share of objects that a selector is taken to match: a log does not say. That
// they are looked at costs more than that they are sent.
const selectedShare = 0.01

// getsProtobuf reports whether a client gets answers in protobuf: clients of Kubernetes' own
// resources are taken to ask for it. Custom resources have none, and kubectl asks for JSON.
func getsProtobuf(c Client, resource string) bool {
	resource, _, _ = strings.Cut(resource, "/")
	_, group, _ := strings.Cut(resource, ".")
	own := strings.HasSuffix(group, ".k8s.io") && !strings.HasSuffix(group, ".x-k8s.io")
	custom := strings.Contains(group, ".") && !own
	return !custom && !c.isKubectl()
}

// sizes returns those of all resources that are LISTed, or WATCHed from their state on, by name.
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
