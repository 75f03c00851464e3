package api

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// History contains every write to the objects of one resource. It is not safe for concurrent use.
type History struct {
	eras     []*Era
	versions []*Version // by Version.ID
}

// NewHistory creates a history whose first write has revision base+1.
func NewHistory(base int64, scheme Scheme) *History {
	h := &History{}
	h.eras = []*Era{{Base: base, Scheme: scheme}}
	return h
}

// Era returns the present era.
func (h *History) Era() *Era { return h.eras[len(h.eras)-1] }

// Eras returns all eras, oldest first. The result is shared; do not modify it.
func (h *History) Eras() []*Era { return h.eras }

// Version returns the version with this ID, or nil.
func (h *History) Version(id int) *Version {
	if id < 0 || id >= len(h.versions) {
		return nil
	}
	return h.versions[id]
}

// Created returns the revision at which the object with this uid was created, or 0 if there never
// was such an object.
func (h *History) Created(uid string) int64 {
	i := slices.IndexFunc(h.versions, func(v *Version) bool { return v.UID == uid })
	if i < 0 {
		return 0
	}
	return h.versions[i].Revision
}

// Get returns the present version of key, or nil.
func (h *History) Get(key Key) *Version { return h.Era().Get(h.Era().Head(), key) }

// Put creates or updates the object with this key, and returns the new version. An update keeps the
// uid.
func (h *History) Put(at time.Duration, key Key, labels map[string]string, node string) *Version {
	e, old := h.Era(), h.Get(key)
	v := h.version(e, e.Head()+1, key, labels, node)
	if old != nil {
		v.UID = old.UID
	}
	e.commit(at, old, v)
	return v
}

func (h *History) version(e *Era, rev int64, key Key, labels map[string]string, node string) *Version {
	v := &Version{Key: key, ID: len(h.versions), Era: e, Revision: rev, Labels: maps.Clone(labels), Node: node}
	v.UID = fmt.Sprintf("00000000-0000-4000-8000-%012d", v.ID)
	h.versions = append(h.versions, v)
	return v
}

// Delete deletes the object with this key. It returns false if the object does not exist.
func (h *History) Delete(at time.Duration, key Key) bool {
	old := h.Get(key)
	if old == nil {
		return false
	}
	h.Era().commit(at, old, nil)
	return true
}

// Bump commits a change of an object of another resource.
func (h *History) Bump(at time.Duration) { h.Era().commit(at, nil, nil) }

// Distinguish commits changes of another resource until the newest resourceVersion differs from all
// resourceVersions of past eras. Otherwise, a client with that resourceVersion of a past era could
// resume from it without an error.
func (h *History) Distinguish(at time.Duration) {
	h.Bump(at)
	for slices.ContainsFunc(h.eras[:len(h.eras)-1], func(e *Era) bool { return e.had(h.Era()) }) {
		h.Bump(at)
	}
}

// Restore starts a new era with the state at revision rev, like a restore from a backup. It limits
// rev to the range from Base to Head of the present era.
func (h *History) Restore(at time.Duration, rev int64) {
	e := h.Era()
	rev = min(max(rev, e.Base), e.Head())
	h.eras = append(h.eras, &Era{Index: len(h.eras), Scheme: e.Scheme, Parent: e, Base: rev, Began: at, first: e.At(rev), compacted: rev})
}

// Replace starts a new era with copies of the present objects, like new servers to which the
// objects were copied. The new era counts revisions from base, and has its own Scheme.
func (h *History) Replace(at time.Duration, base int64, scheme Scheme) {
	state := h.Era().At(h.Era().Head())
	e := &Era{Index: len(h.eras), Scheme: scheme, Base: base, Began: at}
	h.eras = append(h.eras, e)
	for _, old := range state {
		v := h.version(e, e.Head()+1, old.Key, old.Labels, old.Node)
		v.UID = old.UID
		e.commit(at, nil, v)
	}
	e.compacted = e.Head()
}
