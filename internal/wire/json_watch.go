package wire

import "io"

// jsonWatch splits a body of JSON documents, each of which is a watch event.
type jsonWatch struct {
	jsonStream
	max      int
	typeMeta TypeMeta // of the last event; it is nearly always that of the next
	name     []byte   // of the member last read
	text     []byte   // of a type that had escapes
	within   bool     // an event has begun, and has not ended
}

// buffered leaves out the whitespace before the next event: the newline behind the last one arrives
// together with that, and says nothing of the next. An event that broke off counts from its
// beginning.
func (j *jsonWatch) buffered() int {
	if j.within {
		return j.buf.len()
	}
	rest := j.buf.window()[j.pos:]
	for i, c := range rest {
		if c != '\n' && c != ' ' && c != '\r' && c != '\t' {
			return len(rest) - i
		}
	}
	return 0
}

// jsonEvent is an event that is being read.
type jsonEvent struct {
	typ      EventType
	object   span    // in the window
	typeMeta [2]span // apiVersion and kind, in the object
	damage   error   // why the object cannot be read
}

func (j *jsonWatch) next() (Event, error) {
	j.keep = 0
	j.release()
	c, err := j.peek()
	if err == io.EOF {
		return Event{}, io.EOF
	}
	if err != nil {
		return Event{}, j.fail("watch event", err)
	}
	if c != '{' {
		return Event{}, j.notAnObject(c, "watch event")
	}
	j.release()
	j.pos++
	j.within = true
	j.keep = j.max + eventOverhead
	var e jsonEvent
	for first := true; ; first = false {
		ended, err := j.separator(first, '}', "watch event")
		if err != nil {
			return Event{}, err
		}
		if ended {
			break
		}
		if err := j.readMember(&e); err != nil {
			return Event{}, err
		}
		if j.pos > j.max+eventOverhead {
			return Event{}, j.fail("watch event", ErrTooLarge)
		}
	}
	j.within = false
	return j.event(&e)
}

func (j *jsonWatch) readMember(e *jsonEvent) (err error) {
	if j.name, err = j.jsonStream.name(j.name[:0], "watch event"); err != nil {
		return err
	}
	switch string(j.name) {
	case "type":
		v, err := j.value(1, nil, eventOverhead, "watch event's type")
		if err != nil {
			return err
		}
		return j.readType(e, v)
	case "object":
		if e.object != (span{}) {
			return j.malformed("watch event: object twice")
		}
		v, err := j.value(1, objectNames, j.max, "object")
		if v == nil {
			return err
		}
		if e.damage = err; v[0] != '{' {
			e.damage = j.malformed("watch event: its object is none")
		}
		e.object = span{j.pos - len(v), j.pos}
		e.typeMeta = [2]span{j.scan.spans[noteAPIVersion], j.scan.spans[noteKind]}
		return nil
	}
	_, err = j.value(1, nil, eventOverhead, "watch event")
	return err
}

func (j *jsonWatch) readType(e *jsonEvent, v []byte) error {
	if e.typ != 0 {
		return j.malformed("watch event: type twice")
	}
	if v[0] == '"' {
		var text []byte
		text, j.text = stringText(j.text[:0], v)
		e.typ = eventType(text)
	}
	if e.typ == 0 {
		return malformedf(j.offset(), "watch event of type %.40q", v)
	}
	return nil
}

func (j *jsonWatch) event(e *jsonEvent) (Event, error) {
	if e.typ == 0 || e.object == (span{}) {
		return Event{}, j.malformed("watch event without type or object")
	}
	object := e.object.of(j.buf.window())
	if e.damage == nil {
		if err := j.typeMeta.setJSON(e.typeMeta[0].of(object), e.typeMeta[1].of(object)); err != nil {
			e.damage = j.malformed("object: " + err.Error())
		}
	}
	switch {
	case e.damage != nil && e.typ == Error: // it ends the watch in any case
		return Event{}, e.damage
	case e.damage != nil:
		return Event{}, &ItemError{e.damage}
	}
	return Event{Type: e.typ, TypeMeta: j.typeMeta, Object: object[:len(object):len(object)]}, nil
}
