package wire

import (
	"encoding/binary"
	"fmt"
	"reflect"
)

// Dropper removes fields from objects without decoding them. It is immutable and safe for
// concurrent use.
type Dropper struct {
	enc  Encoding
	root *dropNode
}

// dropNode says which parts of a value are removed. The nodes form a tree, with a node for each
// step of the compiled paths.
type dropNode struct {
	drop bool // remove the whole value; the fields below do not matter

	// names has the nodes of JSON members, by name.
	names map[string]*dropNode
	// fields has the nodes of protobuf fields, by number.
	fields map[uint32]*dropNode
	// keys has the nodes of entries, by key, if the value is a protobuf map.
	keys map[string]*dropNode
	// all is the node for each element of a list, each value of a JSON object, or each entry of a
	// protobuf map.
	all *dropNode
	// isMap is true if the protobuf field is a map, so that each occurrence of the field is one entry
	// of the map.
	isMap bool
}

// CompileDrop compiles the paths of fields to remove, in the syntax of Path. A path may end at
// [key], at [*], or at any field, even if the field's value is an object or a list. It must not
// select a single element of a list, as [3] does. goType is as in CompilePath. The error wraps
// ErrPath.
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

// Append appends object to dst without the dropped fields. dst must not overlap object. The other
// fields are unchanged. In a JSON object or array that a path goes through, whitespace between the
// members or elements may be lost. The error is a *SyntaxError; Append then returns dst unchanged.
func (d *Dropper) Append(dst, object []byte) ([]byte, error) {
	was := len(dst)
	at := -1
	if d.enc == Protobuf {
		dst, at = d.root.appendProto(dst, object)
	} else {
		end, r := 0, scanOn
		if dst, end, r = d.root.appendJSON(dst, object, skipSpace(object, 0), 0); r != scanDone {
			at = end
		}
	}
	if at >= 0 {
		return dst[:was], malformed(int64(at), "object: cannot be parsed")
	}
	return dst, nil
}

// DropsLabels reports whether d may drop some or all labels or annotations of objects.
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

// settle merges n.all, which applies to every element, into the nodes of single keys. Then Append
// uses only one node for each element: the key's node, or n.all.
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
		// If all elements are removed, remove the whole field: protobuf encodes an empty list or map like
		// an absent one.
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

func (n *dropNode) addJSON(path string) error {
	steps, err := parsePath(path)
	if err != nil {
		return err
	}
	for _, s := range steps {
		switch s.sel {
		case selectIndex:
			return errDropIndex(path)
		case selectAll:
			n = n.each()
		default:
			n = child(&n.names, s.name)
		}
	}
	n.drop = true
	return nil
}

// appendJSON appends the value at object[i:] without the parts that n removes. depth is the number
// of objects and arrays around the value. appendJSON returns the index after the value. If the
// scanResult is not scanDone, the value is malformed, and end is the index of the mistake.
func (n *dropNode) appendJSON(dst, object []byte, i, depth int) (_ []byte, end int, _ scanResult) {
	isObject := i < len(object) && object[i] == '{'
	if !isObject && (n.all == nil || i >= len(object) || object[i] != '[') {
		end, r := scanValue(object, i, depth)
		return append(dst, object[i:end]...), end, r
	}
	w := jsonWalk{b: object, i: i, depth: depth}
	dst = append(dst, object[i])
	first := len(dst)
	for w.toValue() {
		todo := n.all
		if isObject {
			todo = n.member(w.name)
		}
		if todo != nil && todo.drop {
			w.skip()
			continue
		}
		dst = comma(dst, first)
		if isObject {
			dst = append(append(append(dst, '"'), w.name...), '"', ':')
		}
		if todo == nil {
			w.skip()
			dst = append(dst, object[w.value.from:w.i]...)
			continue
		}
		var r scanResult
		dst, end, r = todo.appendJSON(dst, object, w.value.from, w.depth)
		w.pass(end, r)
	}
	if w.result == scanDone {
		dst = append(dst, w.end)
	}
	return dst, w.i, w.result
}

// member returns the node for a member, or nil if n removes nothing from the member.
func (n *dropNode) member(name []byte) *dropNode {
	name, _ = textOfRaw(nil, name)
	if todo := n.names[string(name)]; todo != nil {
		return todo
	}
	return n.all
}

// entryValueField is the number of the field that contains the value in an entry of a protobuf map.
const entryValueField = 2

func (n *dropNode) addProto(goType reflect.Type, path string) error {
	steps, _, err := resolvePath(goType, path)
	if err != nil {
		return err
	}
	inEntry := false
	for _, s := range steps {
		if inEntry {
			n = child(&n.fields, entryValueField)
		}
		inEntry = s.pick == pickEntry || s.pick == pickKey
		n = child(&n.fields, s.num)
		switch s.pick {
		case pickIndex:
			return errDropIndex(path)
		case pickAll:
			n = n.each()
		case pickEntry:
			n.isMap = true
			n = n.each()
		case pickKey:
			n.isMap = true
			n = child(&n.keys, s.key)
		}
	}
	n.drop = true
	return nil
}

// appendProto appends the message b without the parts that n removes. at is the index at which b is
// malformed, or -1.
func (n *dropNode) appendProto(dst, b []byte) (_ []byte, at int) {
	copied := 0
	var f protoField
	for i := 0; i < len(b); {
		next := f.consume(b, i)
		if next < 0 {
			return dst, i
		}
		from := i
		i = next
		todo := n.fields[f.num]
		if todo == nil {
			continue
		}
		inner := next - len(f.bytes)
		if !todo.drop {
			if f.typ != typeBytes {
				return dst, from
			}
			var ok bool
			if todo, ok = todo.of(f.bytes); !ok {
				return dst, inner
			}
			if todo == nil {
				continue
			}
		}
		dst = append(dst, b[copied:from]...)
		copied = next
		if todo.drop {
			continue
		}
		if dst, at = todo.appendField(dst, f.num, f.bytes); at >= 0 {
			return dst, inner + at
		}
	}
	return append(dst, b[copied:]...), -1
}

// of returns the node to apply to b, the message in one occurrence of a field. It returns nil if
// nothing is removed from that message. ok is false if b is malformed.
func (n *dropNode) of(b []byte) (todo *dropNode, ok bool) {
	if !n.isMap {
		if n.all != nil {
			return n.all, true
		}
		return n, true
	}
	entry := [...]protoField{1: bytesField}
	if readFields(b, entry[:], "entry", 0) != nil {
		return nil, false
	}
	if todo := n.keys[string(entry[1].bytes)]; todo != nil {
		return todo, true
	}
	return n.all, true
}

// appendField appends the message b as field num, without the parts that n removes. at is the index
// at which b is malformed, or -1.
func (n *dropNode) appendField(dst []byte, num uint32, b []byte) (_ []byte, at int) {
	dst = appendTag(dst, num, typeBytes)
	lengthAt := len(dst)
	// the length of b, which is corrected below if parts of b are removed
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	from := len(dst)
	if dst, at = n.appendProto(dst, b); at >= 0 {
		return dst, at
	}
	size := len(dst) - from
	length := binary.AppendUvarint(dst[:lengthAt], uint64(size))
	if len(length) < from {
		copy(dst[len(length):], dst[from:])
	}
	return dst[:len(length)+size], -1
}
