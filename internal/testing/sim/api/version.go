package api

import (
	"strconv"
	"strings"
)

// Key names an object.
type Key struct{ Namespace, Name string }

func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Less orders keys as etcd does.
func (k Key) Less(o Key) bool {
	if k.Namespace != o.Namespace {
		return k.Namespace < o.Namespace
	}
	return k.Name < o.Name
}

// ParseKey reads "namespace/name".
func ParseKey(s string) Key {
	ns, name, _ := strings.Cut(s, "/")
	return Key{ns, name}
}

// Version is one state of one object. It never changes, and pointers to versions are compared.
type Version struct {
	Key      Key
	ID       int // grows with each write of the history, across eras
	UID      string
	Era      *Era
	Revision int64
	Labels   map[string]string
	Node     string // a field to index by
}

// ResourceVersion returns the version's metadata.resourceVersion.
func (v *Version) ResourceVersion() string { return v.Era.Format(v.Revision) }

// String returns the name of the version in logs. The version may be nil.
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
