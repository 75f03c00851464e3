package wire

// appendJSON appends the values that the steps select from the value at a span of text.
func (p *Path) appendJSON(dst [][]byte, text []byte, at span, steps []pathStep) ([][]byte, error) {
	v := at.of(text)
	if len(steps) == 0 {
		return appendJSONText(dst, v), nil
	}
	if len(v) == 0 {
		return dst, malformed(int64(at.from), p.text+": not JSON")
	}
	switch v[0] {
	case '{':
		return p.appendJSONMembers(dst, text, at, steps)
	case '[':
		return p.appendJSONElements(dst, text, at, steps)
	}
	return dst, nil
}

func (p *Path) appendJSONMembers(dst [][]byte, text []byte, at span, steps []pathStep) ([][]byte, error) {
	step := &steps[0]
	members := membersOf(at.of(text))
	found := false
	for {
		name, value, ok := members.next()
		if !ok {
			break
		}
		if step.sel != selectAll {
			if !nameIs(name, step.name) {
				continue
			}
			if found {
				return dst, malformedf(int64(at.from+value.from), "%s: %s twice", p.text, name)
			}
			found = true
		}
		var err error
		value = span{at.from + value.from, at.from + value.to}
		if dst, err = p.appendJSON(dst, text, value, steps[1:]); err != nil {
			return dst, err
		}
	}
	if members.bad {
		return dst, malformed(int64(at.from+members.i), p.text+": not JSON")
	}
	return dst, nil
}

func (p *Path) appendJSONElements(dst [][]byte, text []byte, at span, steps []pathStep) ([][]byte, error) {
	step := &steps[0]
	if step.sel != selectAll && step.sel != selectIndex {
		return dst, nil
	}
	elements := elementsOf(at.of(text))
	for n := 0; ; n++ {
		value, ok := elements.next()
		if !ok {
			break
		}
		if step.sel == selectIndex && n != step.index {
			continue
		}
		var err error
		value = span{at.from + value.from, at.from + value.to}
		if dst, err = p.appendJSON(dst, text, value, steps[1:]); err != nil {
			return dst, err
		}
	}
	if elements.bad {
		return dst, malformed(int64(at.from+elements.i), p.text+": not JSON")
	}
	return dst, nil
}

// appendJSONText appends the text of v, unless v is an object, a list or null.
func appendJSONText(dst [][]byte, v []byte) [][]byte {
	switch {
	case len(v) == 0 || v[0] == '{' || v[0] == '[' || v[0] == 'n':
		return dst
	case isString(v):
		text, _ := stringText(nil, v)
		return append(dst, text)
	}
	return append(dst, v)
}
