package wire

import "bytes"

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

// appendJSON appends the value v without what n removes from it. at is the index at which v is
// malformed, or -1.
func (n *dropNode) appendJSON(dst, v []byte) (_ []byte, at int) {
	switch {
	case len(v) == 0:
		return dst, 0
	case v[0] == '{':
		return n.appendJSONObject(dst, v)
	case v[0] == '[' && n.all != nil:
		return n.appendJSONArray(dst, v)
	}
	return append(dst, v...), -1
}

// member returns the node for a member, or nil if nothing is removed from it.
func (n *dropNode) member(name []byte) *dropNode {
	if bytes.IndexByte(name, '\\') >= 0 {
		name = unescape(nil, name)
	}
	if todo := n.names[string(name)]; todo != nil {
		return todo
	}
	return n.all
}

func (n *dropNode) appendJSONObject(dst, v []byte) (_ []byte, at int) {
	dst = append(dst, '{')
	first := len(dst)
	members := membersOf(v)
	for {
		name, value, ok := members.next()
		if !ok {
			break
		}
		todo := n.member(name)
		if todo != nil && todo.drop {
			continue
		}
		dst = append(comma(dst, first), '"')
		dst = append(append(dst, name...), '"', ':')
		if todo == nil {
			dst = append(dst, value.of(v)...)
		} else if dst, at = todo.appendJSON(dst, value.of(v)); at >= 0 {
			return dst, value.from + at
		}
	}
	if members.bad {
		return dst, members.i
	}
	return append(dst, '}'), -1
}

func (n *dropNode) appendJSONArray(dst, v []byte) (_ []byte, at int) {
	dst = append(dst, '[')
	first := len(dst)
	elements := elementsOf(v)
	for {
		value, ok := elements.next()
		if !ok {
			break
		}
		if n.all.drop {
			continue
		}
		dst = comma(dst, first)
		if dst, at = n.all.appendJSON(dst, value.of(v)); at >= 0 {
			return dst, value.from + at
		}
	}
	if elements.bad {
		return dst, elements.i
	}
	return append(dst, ']'), -1
}
