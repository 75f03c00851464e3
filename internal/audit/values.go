package audit

// keep keeps a character of an object.
func (r *records) keep(c byte) {
	if len(r.kept) >= MaxLine {
		r.long = true
		return
	}
	r.kept = append(r.kept, c)
}

// value reads a value without a look inside. It returns false if the line or the string ends in it.
func (r *records) value(keep bool) bool {
	for depth := 0; ; {
		c := r.peek()
		switch c {
		case 0:
			return false
		case '"':
			if !r.text(keep) {
				return false
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		default:
			if depth == 0 {
				return r.literal(keep)
			}
		}
		if c != '"' {
			r.pass()
			if keep {
				r.keep(c)
			}
		}
		if depth <= 0 {
			return depth == 0
		}
	}
}

// literal reads a number, true, false or null.
func (r *records) literal(keep bool) bool {
	n := 0
	for c := r.peek(); literal(c); c = r.peek() {
		r.pass()
		n++
		if keep {
			r.keep(c)
		}
	}
	return n > 0
}

// text reads a string, escapes as they are.
func (r *records) text(keep bool) bool {
	one := func() byte {
		c := r.peek()
		if c == 0 || c == '\n' {
			return 0
		}
		r.pass()
		if keep {
			r.keep(c)
		}
		return c
	}
	if one() != '"' {
		return false
	}
	for {
		if text := r.plain(); len(text) > 0 {
			r.from += len(text)
			if keep {
				n := min(len(text), max(0, MaxLine-len(r.kept)))
				r.kept, r.long = append(r.kept, text[:n]...), r.long || n < len(text)
			}
			continue
		}
		switch one() {
		case 0:
			return false
		case '"':
			return true
		case '\\':
			if one() == 0 {
				return false
			}
		}
	}
}
