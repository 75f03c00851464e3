package audit

import (
	"bytes"
	"errors"
	"fmt"
)

const (
	// MaxLine bounds what is kept of an event: the line without the request's and the response's
	// object. Events that are longer are skipped and counted.
	MaxLine = 4 << 20
	// maxDepth bounds the envelopes inside of each other. The deepest that is known, records of
	// properties with a log, has 5.
	maxDepth = 8
)

// records finds the objects in a log that can be events. Most are lines, which are parsed where
// they are. Of the others it reads the JSON that is behind a prefix, in a list, in a string, or in
// a member of an envelope, and keeps each object without the members that can be large.
type records struct {
	reader
	levels []level // what the next character is in; the innermost last
	kept   []byte  // of the objects that are open: MaxLine at most, and a name
	long   bool    // more was to be kept
	google bool    // the object is an entry of Google's Cloud Logging

	events           int64
	before           int64 // r.events at the start of the line
	fault            error // what is wrong with the object
	counted          bool  // the line's fault
	malformed, large int64
	causes           map[string]int64 // by the text of the error, of which there are few
	first            error            // what is wrong with the first malformed line
	bad              string           // its start, with its number
	start            []byte           // of the line; bounded by shown
	startNumber      int64            // the line's
}

// level is a list, a string or an object with events in it.
type level struct {
	of     byte // [ or " or {
	mark   int  // of kept: where the object begins
	value  int  // of kept: where the value of the member begins that is read
	events int64
	holds  bool // an object has events in it: it is an envelope
	ended  bool // the value of the member has been read, and is kept as null
}

// envelopes are the members in which the common ways to deliver a log have events, as objects,
// lists or text: EventList; AKS, by way of Event Hubs and of a storage account; CloudWatch; docker
// and fluentd; Vector. An Event has no member of such a name.
var envelopes = [...]string{"items", "records", "properties", "log", "events", "logEvents", "message", "structured"}

// next reads the next event. It returns false at the end of the log.
func (r *records) next(e *Event) bool {
	for {
		if len(r.levels) == 0 && !r.inLine {
			line, whole := r.line()
			if len(line) == 0 && r.ended() {
				return false
			}
			r.begin(line)
			if whole && e.Parse(line) == nil {
				r.events++
				r.endLine()
				return true
			}
			if len(bytes.TrimSpace(line)) == 0 && whole {
				r.endLine()
				continue
			}
		}
		object, ok := r.scan()
		if !ok {
			r.finish()
			continue
		}
		if r.take(e, object) {
			return true
		}
	}
}

// shown is how much of a malformed line is shown.
const shown = 60

// begin takes note of a line's start.
func (r *records) begin(line []byte) {
	if line == nil {
		line = r.buf[r.from:r.to]
	}
	r.start = append(r.start[:0], line[:min(len(line), shown+1)]...)
	r.startNumber = r.number + 1
	r.before, r.fault, r.counted, r.google = r.events, nil, false, false
}

// take parses an object, and reports whether it is an event. What looks like one and is none
// counts, and so does what is none in a list.
func (r *records) take(e *Event, object []byte) bool {
	if r.long {
		r.long = false
		r.large++
		r.counted = true
		return false
	}
	inList := len(r.levels) > 0 && r.levels[len(r.levels)-1].of == '['
	err := e.parse(object, inList)
	if err == nil {
		r.events++
		return true
	}
	if r.google && errors.Is(err, ErrOtherKind) {
		err = ErrGoogle
	}
	r.google = false
	if r.fault = err; inList || !errors.Is(err, ErrOtherKind) {
		r.count(err)
	}
	return false
}

// finish ends a line. One without an event counts.
func (r *records) finish() {
	cut := len(r.levels) > 0
	r.levels, r.kept, r.long = r.levels[:0], r.kept[:0], false
	switch {
	case r.counted:
	case cut && r.fault == nil:
		r.count(ErrCutOff)
	case cut || r.events == r.before:
		if r.fault == nil {
			r.fault = ErrNoJSON
		}
		r.count(r.fault)
	}
	r.endLine()
}

// count counts what is malformed.
func (r *records) count(err error) {
	r.malformed++
	r.counted = true
	if r.causes == nil {
		r.causes = map[string]int64{}
	}
	r.causes[err.Error()]++
	if r.bad == "" {
		start := r.start
		if len(start) > shown {
			start = append(bytes.Clone(start[:shown]), "…"...)
		}
		r.bad, r.first = fmt.Sprintf("line %d is %q", r.startNumber, start), err
	}
}

// scan returns the next object that can be an event: at the end of the line it returns false.
func (r *records) scan() (object []byte, ok bool) {
	for {
		object, ok = r.step()
		switch {
		case object != nil:
			return object, true
		case !ok && !r.leaveString():
			return nil, false
		}
	}
}

// continues reports whether the JSON goes on in the next line, as it does in a log whose first line
// does not end it.
func (r *records) continues() bool {
	if r.quoted || r.multiline || r.events+r.malformed > 0 {
		return false
	}
	c, ok := r.raw()
	r.multiline = ok && c == '\n'
	return r.multiline
}

// leaveString passes the rest of a string whose JSON is malformed, and reports whether there is
// one.
func (r *records) leaveString() bool {
	for i, l := range r.levels {
		if l.of != '"' {
			continue
		}
		if r.fault == nil {
			r.fault = ErrCutOff
		}
		r.count(r.fault)
		r.levels = r.levels[:i+1]
		for r.peek() != 0 {
			r.pass()
		}
		return r.endString()
	}
	return false
}

// step reads a character, a member, or what is between objects. It returns an object that is
// complete, or false at the end of the line, and where the JSON is malformed.
func (r *records) step() (object []byte, ok bool) {
	c := r.space()
	if len(r.levels) == 0 {
		r.kept = r.kept[:0]
		return nil, r.outside(c)
	}
	top := &r.levels[len(r.levels)-1]
	switch {
	case top.of != '{':
		r.kept = r.kept[:top.mark]
	case top.ended:
		r.kept = append(r.kept[:top.value], "null"...)
		top.ended = false
	}
	switch {
	case c == 0 && r.continues():
		return nil, true
	case top.of == '{':
		return r.member(top, c)
	case top.of == '"' && c == 0:
		return nil, r.endString()
	case top.of == '"':
		return nil, r.outside(c)
	}
	switch c {
	case ']':
		r.pass()
		r.leave()
	case ',':
		r.pass()
	case '{', '[', '"':
		return nil, r.enter(c)
	default:
		return nil, r.value(false)
	}
	return nil, true
}

// outside passes what is before and behind an object in a line or a string: a prefix, or a comma.
func (r *records) outside(c byte) bool {
	switch c {
	case 0:
		return false
	case '{':
		return r.enter(c)
	case '[':
		r.pass()
		switch r.space() { // or a prefix has it
		case '{', '[', ']', 0:
			return r.open('[')
		}
	default:
		r.pass()
	}
	return true
}

// enter begins an object, a list or a string.
func (r *records) enter(c byte) bool {
	r.pass()
	return r.open(c)
}

func (r *records) open(c byte) bool {
	if len(r.levels) == maxDepth || c == '"' && r.quoted {
		return false
	}
	r.levels = append(r.levels, level{of: c, mark: len(r.kept), events: r.events})
	switch c {
	case '{':
		r.fault = nil
		r.keep('{')
	case '"':
		r.quoted = true
	}
	return true
}

// endString leaves a string at its end.
func (r *records) endString() bool {
	if c, ok := r.raw(); !ok || c != '"' || len(r.decoded) > 0 {
		return false
	}
	r.quoted = false
	r.pass()
	r.leave()
	return true
}

// leave leaves the innermost level.
func (r *records) leave() {
	n := len(r.levels) - 1
	had := r.events > r.levels[n].events
	r.levels = r.levels[:n]
	if n > 0 && r.levels[n-1].of == '{' {
		outer := &r.levels[n-1]
		outer.holds, outer.ended = outer.holds || had, true
	}
}

// member reads what is next in an object. At its end it returns it, unless it is an envelope.
func (r *records) member(top *level, c byte) (object []byte, ok bool) {
	switch c {
	case '}':
		r.pass()
		r.keep('}')
		object, holds := r.kept[top.mark:], top.holds
		r.leave()
		if holds {
			object = nil
		}
		return object, true
	case ',':
		r.pass()
		r.keep(',')
		return nil, true
	case '"':
		return nil, r.named(top)
	}
	if len(r.levels) == 1 && len(r.kept) == 1 && c != 0 { // a brace of a prefix
		r.levels, r.kept = r.levels[:0], r.kept[:0]
		return nil, true
	}
	return nil, r.broken()
}

// named reads a member of an object, or begins to if events can be in it.
func (r *records) named(top *level) bool {
	from := len(r.kept)
	if !r.text(true) || r.space() != ':' {
		return r.broken()
	}
	name := string(bytes.Trim(r.kept[from:], `"`))
	r.pass()
	r.keep(':')
	c := r.space()
	top.value = len(r.kept)
	switch name {
	case "requestObject", "responseObject":
		if !r.value(false) {
			return r.broken()
		}
		for _, c := range []byte("null") {
			r.keep(c)
		}
		return true
	case "protoPayload":
		r.google = true
	}
	if (c == '{' || c == '[' || c == '"') && isEnvelope(name) && len(r.levels) < maxDepth && !(c == '"' && r.quoted) {
		return r.enter(c)
	}
	return r.value(true) || r.broken()
}

// broken notes that the JSON is malformed, unless it is cut off, and returns false.
func (r *records) broken() bool {
	if r.peek() != 0 {
		r.fault = ErrInvalid
	}
	return false
}

func isEnvelope(name string) bool {
	for _, e := range envelopes {
		if e == name {
			return true
		}
	}
	return false
}
