package clientgo

import (
	"bytes"

	"k8s.io/apimachinery/pkg/types"

	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/wire"
)

// renames records, by the server's keys, under which name and namespace the objects are held to
// which a transform has given others. So an object is found also if its newest version, or its
// final state, cannot be transformed. It is nil until there is such an object. A deletion removes
// the object from it, and a relist all that are not held any more.
type renames map[string]types.NamespacedName

// note records what an object that was taken is held as. namespace and name are the server's, and
// those in m are what it is held under. gone tells that it was deleted.
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

// apply sets the name and namespace in m, which are the server's, to those that the object is held
// under.
func (r renames) apply(m *wire.Meta) {
	if is, ok := r[string(wire.AppendKey(nil, m))]; ok {
		m.Namespace, m.Name = []byte(is.Namespace), []byte(is.Name)
	}
}

// prune forgets the objects that are not held any more.
func (r renames) prune(s *store.Store) {
	for key, is := range r {
		m := wire.Meta{Namespace: []byte(is.Namespace), Name: []byte(is.Name)}
		if _, ok := s.Get(string(wire.AppendKey(nil, &m))); !ok {
			delete(r, key)
		}
	}
}
