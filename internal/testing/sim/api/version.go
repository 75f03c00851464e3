package api

import (
	"strconv"
	"strings"
)

// Key identifies an object by its namespace and name.
type Key struct{ Namespace, Name string }

func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Less orders keys as in etcd: by namespace, and then by name.
func (k Key) Less(o Key) bool {
	if k.Namespace != o.Namespace {
		return k.Namespace < o.Namespace
	}
	return k.Name < o.Name
}

// ParseKey parses "namespace/name".
func ParseKey(s string) Key {
	ns, name, _ := strings.Cut(s, "/")
	return Key{ns, name}
}

// Version is one state of one object. It is immutable. A write creates exactly one Version, so code
// compares the pointers.
type Version struct {
	Key      Key
	ID       int // increases with each write to the history, also in a new era
	UID      string
	Era      *Era
	Revision int64
	Labels   map[string]string
	Node     string // the object's value for the index "node"
}

// ResourceVersion returns the version's metadata.resourceVersion.
func (v *Version) ResourceVersion() string { return v.Era.Format(v.Revision) }

// String returns a description of the version for logs. v may be nil.
func (v *Version) String() string {
	if v == nil {
		return "nothing"
	}
	var b strings.Builder
	b.WriteString(v.Key.String())
	b.WriteString("#" + strconv.Itoa(v.ID))
	b.WriteString("@" + v.ResourceVersion())
	if v.Era.Index > 0 {
		b.WriteString("/era" + strconv.Itoa(v.Era.Index))
	}
	return b.String()
}
