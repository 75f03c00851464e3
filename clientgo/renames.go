package clientgo

import (
	"bytes"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
)

// renames maps the server's keys of objects that a transform has renamed to the name and namespace
// under which they are stored. So an object is found even if its newest version, or its final
// state, cannot be transformed. It is nil until there is such an object. A deletion removes the
// object from it, and a relist all that are no longer stored.
type renames map[string]types.NamespacedName

// note records the name under which an accepted object is stored. namespace and name are the
// server's; m has the stored ones. gone reports that the object was deleted.
func (r renames) note(namespace, name []byte, m *wire.Meta, gone bool) {
	if r == nil {
		return
	}
	key := wire.AppendKey(nil, &wire.Meta{Namespace: namespace, Name: name})
	if gone || bytes.Equal(namespace, m.Namespace) && bytes.Equal(name, m.Name) {
		delete(r, string(key))
		return
	}
	if was, ok := r[string(key)]; ok && was.Namespace == string(m.Namespace) && was.Name == string(m.Name) {
		return
	}
	r[string(key)] = types.NamespacedName{Namespace: string(m.Namespace), Name: string(m.Name)}
}

// apply replaces the server's name and namespace in m by the stored ones.
func (r renames) apply(m *wire.Meta) {
	if is, ok := r[string(wire.AppendKey(nil, m))]; ok {
		m.Namespace, m.Name = []byte(is.Namespace), []byte(is.Name)
	}
}

// prune forgets the objects that are no longer stored.
func (r renames) prune(s *store.Store) {
	for key, is := range r {
		m := wire.Meta{Namespace: []byte(is.Namespace), Name: []byte(is.Name)}
		if _, ok := s.Get(string(wire.AppendKey(nil, &m))); !ok {
			delete(r, key)
		}
	}
}
