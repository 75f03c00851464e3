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

// dropNode says what to remove from the value at the end of a path.
type dropNode struct {
	drop bool // the whole value is removed; the other fields do not matter

	// By name of a JSON member.
	names map[string]*dropNode
	// By number of a protobuf field.
	fields map[uint32]*dropNode
	// By key of an entry, if the value is a protobuf map.
	keys map[string]*dropNode
	// For each element of a list, each value of a JSON object, or each entry of a protobuf map.
	all *dropNode
	// The protobuf field is a map, so its values are entries.
	isMap bool
}

// CompileDrop compiles the paths of fields to remove. Paths are written as for Path. A path may end
// at any field, also at one without a text value, and at [key] or [*]. It must not go through a
// single element of a list. goType is as in CompilePath. The error wraps ErrPath.
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

// Encoding returns the encoding of the objects.
func (d *Dropper) Encoding() Encoding { return d.enc }

// Append appends object to dst without the dropped fields. dst must not overlap object. An object
// without these fields is appended as it is, except that whitespace between members of the JSON
// objects on the way may be lost. The error is a *SyntaxError; dst is then returned unchanged.
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

// DropsLabels reports whether the labels or annotations of objects may be dropped, or some of them.
func (d *Dropper) DropsLabels() bool {
	if d.enc == Protobuf {
		of := d.root.fields[protoMetadata]
		return of != nil && (of.drop || of.fields[protoLabels] != nil || of.fields[protoAnnotations] != nil)
	}
	of := d.root.member([]byte("metadata"))
	return of != nil && (of.drop || of.member([]byte("labels")) != nil || of.member([]byte("annotations")) != nil)
}

func errDropIndex(path string) error {
	return fmt.Errorf("%w %q: one element of a list cannot be dropped", ErrPath, path)
}

// child returns the node for key in *m. It adds one if there is none.
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

// settle merges what applies to all elements into the nodes of single keys.
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
		// In protobuf an empty list or map is the same as an absent one.
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
