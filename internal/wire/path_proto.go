package wire

// appendProto appends the values that the steps select from the message b, which starts at offset.
func (p *Path) appendProto(dst [][]byte, b []byte, offset int64, steps []protoStep) ([][]byte, error) {
	step, last := &steps[0], len(steps) == 1
	count := 0
	var f protoField
	for i := 0; i < len(b); {
		next := f.consume(b, i)
		at := offset + int64(i)
		if next < 0 {
			return dst, fieldError(at, p.text, next)
		}
		i = next
		if f.num != step.num {
			continue
		}
		if f.typ == typeBytes && last && p.format.wireType() != typeBytes && (step.pick == pickAll || step.pick == pickIndex) {
			var ok bool
			if dst, count, ok = p.appendPacked(dst, f.bytes, step, count); !ok {
				return dst, malformed(at, p.text+": a packed list is malformed inside")
			}
			continue
		}
		count++
		value := f
		switch step.pick {
		case pickOne:
			if count > 1 {
				return dst, malformedf(at, "%s: field %d twice", p.text, f.num)
			}
		case pickIndex:
			if count-1 != step.index {
				continue
			}
		case pickKey, pickEntry:
			take, ok := entryValue(&value, step)
			if !ok {
				return dst, malformed(at, p.text+": an entry of a map is malformed inside")
			}
			if !take {
				continue
			}
		}
		var err error
		if dst, err = p.appendProtoField(dst, &value, offset+int64(next-len(f.bytes)), steps); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// appendProtoField follows the rest of the steps from a field that the first of them has selected.
func (p *Path) appendProtoField(dst [][]byte, f *protoField, offset int64, steps []protoStep) ([][]byte, error) {
	if len(steps) > 1 {
		if f.typ != typeBytes {
			return dst, malformedf(offset, "%s: field %d is not a message", p.text, f.num)
		}
		return p.appendProto(dst, f.bytes, offset, steps[1:])
	}
	if f.typ != p.format.wireType() {
		return dst, malformedf(offset, "%s: field %d has wire type %d", p.text, f.num, f.typ)
	}
	if p.omitEmpty && p.format.empty(f) {
		return dst, nil
	}
	text, has, ok := p.format.text(f)
	if !ok {
		return dst, malformedf(offset, "%s: field %d is malformed inside", p.text, f.num)
	}
	if has {
		dst = append(dst, text)
	}
	return dst, nil
}

// appendPacked appends the numbers of a packed list. It takes and returns how many numbers of the
// list have been read.
func (p *Path) appendPacked(dst [][]byte, b []byte, step *protoStep, count int) ([][]byte, int, bool) {
	for i := 0; i < len(b); count++ {
		f := protoField{typ: p.format.wireType()}
		if f.typ == typeVarint {
			f.varint, i = consumeVarint(b, i)
		} else {
			f.varint, i = consumeFixed64(b, i)
		}
		if i < 0 {
			return dst, count, false
		}
		if step.pick == pickIndex && count != step.index {
			continue
		}
		text, _, ok := p.format.text(&f)
		if !ok {
			return dst, count, false
		}
		dst = append(dst, text)
	}
	return dst, count, true
}

// entryValue replaces f, an entry of a map, by the value of the entry. take is false if the step
// selects another key, ok if the entry is malformed.
func entryValue(f *protoField, step *protoStep) (take, ok bool) {
	if f.typ != typeBytes {
		return false, false
	}
	var key []byte
	var value, in protoField
	for i := 0; i < len(f.bytes); {
		if i = in.consume(f.bytes, i); i < 0 {
			return false, false
		}
		switch in.num {
		case 1:
			if in.typ != typeBytes {
				return false, false
			}
			key = in.bytes
		case 2:
			value = in
		}
	}
	if step.pick == pickKey && string(key) != step.key {
		return false, true
	}
	if value.num == 0 {
		value = protoField{num: 2, typ: typeBytes}
	}
	*f = value
	return true, true
}
