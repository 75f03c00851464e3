package wire

// jsonWatch splits a body of JSON documents, each of which is a watch event.
type jsonWatch struct {
	jsonBody
	max      int
	typeMeta TypeMeta // of the last event; it is nearly always that of the next
	text     []byte   // of a type that had escapes
}

// buffered leaves out the whitespace before the next event: the newline after the last one arrives
// together with that one. An event that broke off counts from its beginning, because it is still in
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
		return Event{}, err // io.EOF between two events
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
	case typ == Error: // it ends the watch in any case
		return Event{}, j.malformed("watch event's object: " + problem)
	}
	return Event{}, &ItemError{j.malformed("watch event's object: " + problem)}
}

// jsonEvent is where the parts of an event are in its text.
type jsonEvent struct {
	typ, object span
	twice       bool        // one of them occurs twice
	notes       objectNotes // of the object
}

// scan is the jsonScan of an event.
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
		switch {
		case isType:
			e.twice = e.twice || e.typ != span{}
			e.typ = w.value
		case isObject:
			e.twice = e.twice || e.object != span{}
			e.object = w.value
		}
	}
	return w.i, w.result
}
