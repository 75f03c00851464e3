package doctor

import "github.com/weirproject/weir/internal/audit"

// verb is one of Kubernetes' verbs.
type verb uint8

const (
	verbGet verb = iota
	verbList
	verbWatch
	verbCreate
	verbUpdate
	verbPatch
	verbDelete
	verbDeleteCollection
	verbOther // connect, and methods of requests of no resource
	verbs
)

var verbNames = [verbs]string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "other"}

// verbOf returns the verb of a name.
func verbOf(name []byte) verb {
	for v, known := range verbNames[:verbOther] {
		if string(name) == known {
			return verb(v)
		}
	}
	return verbOther
}

// weight returns how much a request counts when it is decided which clients are told apart.
func (v verb) weight(e *audit.Event) int64 {
	switch {
	case v == verbList, v == verbWatch && e.Latency() < shortWatch:
		return heavy
	case e.Refused():
		return refusedWeight
	}
	return 1
}
