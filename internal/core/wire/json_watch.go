package wire

// jsonWatch splits a body that is a sequence of JSON documents into watch events.
type jsonWatch struct {
	jsonBody
	max      int
	typeMeta TypeMeta // of the last event; kept because the next event nearly always has the same type
	text     []byte   // scratch space for an event type with escapes
}

// buffered does not count whitespace before the next event, because the newline after an event
// arrives together with that event. It counts all bytes of an incomplete event, which are still in
// the window.
func (j *jsonWatch) buffered() int {
	w := j.buf.window()
	return len(w) - skipSpace(w, j.pos)
}

func (j *jsonWatch) next() (Event, error) {
	j.release()
	c, err := j.peek("watch event")
	if err == nil {
		err = j.checkObject(c, "watch event")
	}
	if err != nil {
		return Event{}, err // io.EOF if the body ends between two events
	}
	var e jsonEvent
	text, err := j.value("watch event", j.max+eventOverhead, e.scan)
	switch {
	case err != nil:
		return Event{}, err
	case e.twice:
		return Event{}, j.malformed("watch event: type or object twice")
	case e.typ == span{} || e.object == span{}:
		return Event{}, j.malformed("watch event without type or object")
	}
	name, object := e.typ.of(text), e.object.of(text)
	var typ EventType
	if isString(name) {
		var text []byte
		text, j.text = stringText(j.text[:0], name)
		typ = eventType(text)
	}
	switch {
	case typ == 0:
		return Event{}, malformedf(j.offset(), "watch event of type %.40q", name)
	case len(object) > j.max:
		return Event{}, tooLarge(j.offset(), "object", uint64(len(object)), j.max)
	}
	problem := e.notes.problem(object)
	if problem == "" {
		if err := e.notes.typeMeta(object, &j.typeMeta); err != nil {
			problem = err.Error()
		}
	}
	switch {
	case problem == "":
		return Event{Type: typ, TypeMeta: j.typeMeta, Object: object[:len(object):len(object)]}, nil
	case typ == Error: // an ERROR event ends the watch in any case
		return Event{}, j.malformed("watch event's object: " + problem)
	}
	return Event{}, &ItemError{j.malformed("watch event's object: " + problem)}
}

// jsonEvent contains the positions of an event's parts in the event's text.
type jsonEvent struct {
	typ, object span
	twice       bool        // type or object occurs twice
	notes       objectNotes // positions in the object
}

// scan checks an event as a jsonScan does, and records the positions of its parts.
func (e *jsonEvent) scan(b []byte) (int, scanResult) {
	*e = jsonEvent{}
	w := jsonWalk{b: b}
	for w.toValue() {
		isType, isObject := nameIs(w.name, "type"), nameIs(w.name, "object")
		scan := scanValue
		if isObject {
			scan = e.notes.scan
		}
		if !w.pass(scan(b, w.value.from, w.depth)) {
			break
		}
		if isType {
			e.twice = e.twice || e.typ != span{}
			e.typ = w.value
		} else if isObject {
			e.twice = e.twice || e.object != span{}
			e.object = w.value
		}
	}
	return w.i, w.result
}
