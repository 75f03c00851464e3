package wire

import (
	"fmt"
	"reflect"
)

// Dropper removes fields from objects without decoding them. It is immutable and safe for
// concurrent use.
type Dropper struct {
	enc  Encoding
	root *dropNode
}

// dropNode is what is to be done to the value that a path has come to.
type dropNode struct {
	drop bool // all of it goes; the rest does not matter

	// JSON: by name of a member.
	names map[string]*dropNode
	// Protobuf: by number of a field.
	fields map[uint32]*dropNode
	// Protobuf, of a field that is a map: its entries by their keys.
	keys map[string]*dropNode
	// What is done to each element of a list, each value of a JSON object, or each entry of a
	// protobuf map.
	all *dropNode
	// Protobuf: the field is a map, so that what it holds are entries.
	isMap bool
}

// CompileDrop compiles the paths of fields to be removed; their form is Path's. A path may end at
// any field, not only at one with a text, and at [key] or [*], but not go through one element of a
// list. goType is as in CompilePath. The error wraps ErrPath.
func CompileDrop(enc Encoding, goType reflect.Type, paths ...string) (*Dropper, error) {
	d := &Dropper{enc: enc, root: &dropNode{}}
	for _, path := range paths {
		add := d.root.addJSON
		if enc == Protobuf {
			add = func(path string) error { return d.root.addProto(goType, path) }
		}
		if err := add(path); err != nil {
			return nil, err
		}
	}
	d.root.settle()
	return d, nil
}

// Append appends object without the fields to dst, which must not overlap it. An object without
// these fields is appended as it is, but for whitespace between members of JSON objects on the way.
// On an error, a *SyntaxError, dst is returned as it was given.
func (d *Dropper) Append(dst, object []byte) ([]byte, error) {
	was := len(dst)
	at := -1
	if d.enc == Protobuf {
		dst, at = d.root.appendProto(dst, object)
	} else {
		dst, at = d.root.appendJSON(dst, object[skipSpace(object, 0):])
	}
	if at >= 0 {
		return dst[:was], malformed(int64(at), "object: cannot be taken apart")
	}
	return dst, nil
}

func errDropIndex(path string) error {
	return fmt.Errorf("%w %q: one element of a list cannot be dropped", ErrPath, path)
}

// child returns the node for a key in a map of nodes, made if it is not there.
func child[K comparable](m *map[K]*dropNode, key K) *dropNode {
	n := (*m)[key]
	if n == nil {
		n = &dropNode{}
		if *m == nil {
			*m = map[K]*dropNode{}
		}
		(*m)[key] = n
	}
	return n
}

func (n *dropNode) each() *dropNode {
	if n.all == nil {
		n.all = &dropNode{}
	}
	return n.all
}

// settle lets what is to be done to all also be done to those that have a node of their own.
func (n *dropNode) settle() {
	for _, one := range n.names {
		one.merge(n.all)
		one.settle()
	}
	for _, one := range n.keys {
		one.merge(n.all)
		one.settle()
	}
	for _, one := range n.fields {
		one.settle()
		// In protobuf a list or map without elements is one that is not there.
		one.drop = one.drop || one.all != nil && one.all.drop
	}
	if n.all != nil {
		n.all.settle()
	}
}

func (n *dropNode) merge(from *dropNode) {
	if from == nil {
		return
	}
	n.drop = n.drop || from.drop
	n.isMap = n.isMap || from.isMap
	for key, f := range from.names {
		child(&n.names, key).merge(f)
	}
	for key, f := range from.keys {
		child(&n.keys, key).merge(f)
	}
	for num, f := range from.fields {
		child(&n.fields, num).merge(f)
	}
	if from.all != nil {
		n.each().merge(from.all)
	}
}
