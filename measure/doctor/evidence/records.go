package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// MaxLine limits the bytes of an event's stored fields. Events with more are skipped and counted.
	MaxLine = 4 << 20
	// maxToken limits the length of a JSON string, because the decoder stores a string even to skip
	// it. kube-apiserver accepts requests of 3 MiB.
	maxToken = 4 * MaxLine
	// maxDepth limits how deep envelopes are nested. The deepest known envelopes, a log in properties
	// in records, have depth 5.
	maxDepth = 8
	// shown is the number of characters of a malformed line that an error shows.
	shown = 60
)

// envelopes are the names of members whose values contain events: as an object, as a list or as
// text. They are from the common ways to deliver a log: EventList; AKS through Event Hubs or a
// storage account; CloudWatch; docker and fluentd; Vector. An Event has no member with such a name.
var envelopes = []string{"items", "records", "properties", "log", "events", "logEvents", "message", "structured"}

var (
	errStop = errors.New("the caller needs no more events")
	errLong = errors.New("a string is too long")
)

// records finds the events in a log. Parse reads most lines in the buffer. In other lines, records
// decodes JSON that follows a prefix or is inside a list, a string, or a member of an envelope.
type records struct {
	lines
	event  Event
	inside [maxDepth + 1]Event // the objects that are being read, by nesting depth
	outer  text                // the line, if Parse cannot read it
	search bool                // outer may contain more events
	pull   func() (*Event, bool)
	stop   func() // ends the goroutine of pull; close calls it

	events           int64
	malformed, large int64
	causes           map[string]int64 // by the text of the error; there are few different texts
	first            error            // the fault of the first malformed line
	bad              string           // the start of the first malformed line, with its number
	start            []byte           // the start of the current line, of about shown bytes
	startNumber      int64            // the number of the current line
	fault            error            // of the last object in the line that is not an event
	counted          bool             // a fault of the line has been counted
	google           bool             // the object is an entry of Google's Cloud Logging
}

// next returns the next event, which is valid until the next call. At the end of the log it returns
// nil.
func (r *records) next() *Event {
	for {
		if r.search {
			if e, _ := r.pull(); e != nil {
				return e
			}
			r.search = false
			r.endLine()
		}
		switch line, whole := r.line(); {
		case len(line) == 0 && r.ended():
			r.close()
			return nil
		case whole && r.event.Parse(line) == nil:
			r.events++
			r.take(line)
			return &r.event
		case whole && len(bytes.TrimSpace(line)) == 0:
			r.endLine()
		default:
			r.start = append(r.start[:0], line[:min(len(line), shown+1)]...)
			r.startNumber, r.fault, r.counted = r.number+1, nil, false
			if r.search = true; r.pull == nil {
				r.pull, r.stop = iter.Pull(r.ofLines)
			}
		}
	}
}

// close ends the goroutine that searches lines for events.
func (r *records) close() {
	if r.stop != nil {
		r.stop()
	}
}

// ofLines is the iterator behind pull. It yields the events of the current line, and then nil. When
// next pulls again, ofLines continues with the line that is then current.
func (r *records) ofLines(yield func(*Event) bool) {
	for r.ofLine(yield) && yield(nil) {
	}
}

// ofLine yields the events in a line. It counts a line without events as malformed, and returns
// false if the iteration was stopped.
func (r *records) ofLine(yield func(*Event) bool) (more bool) {
	before := r.events
	if r.outer.given > bufferSize {
		r.outer.decoder = nil // its buffer may be large
	}
	r.outer = text{src: &r.lines, buf: r.outer.buf, decoder: r.outer.decoder}
	err := r.find(&r.outer, position{}, yield)
	switch {
	case errors.Is(err, errStop):
		return false
	case r.counted:
	case err != nil:
		r.count(err)
	case r.events == before && r.fault != nil:
		r.count(r.fault)
	case r.events == before:
		r.count(ErrNoJSON)
	}
	return true
}

// count counts a fault of the current line or of an object in it.
func (r *records) count(err error) {
	r.counted = true
	if errors.Is(err, errLong) {
		r.large++
		return
	}
	r.malformed++
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

// position describes where in a line a value is.
type position struct {
	depth  int
	quoted bool // the value is in a string
	inList bool
}

// find yields the events in a text. The error is errStop if the iteration was stopped, or else the
// reason why the rest of the text cannot be read.
func (r *records) find(t *text, at position, yield func(*Event) bool) error {
	for t.skip() {
		t.decode()
		if !at.quoted {
			// If the first object of a log spans several lines, later objects may too. Otherwise each object
			// ends with its line.
			r.joins = r.joined || r.events+r.malformed == 0
		}
		err := r.value(t.decoder, at, yield)
		if !at.quoted {
			r.joins = false
		}
		if err != nil {
			return t.faultOf(err)
		}
		if at.quoted { // the decoder of a string reads t.ahead without copying it
			t.ahead = t.decoder.UnreadBuffer()
		} else {
			t.ahead = slices.Concat(t.decoder.UnreadBuffer(), t.ahead)
		}
	}
	return nil
}

// value reads a value and yields the events in the value.
func (r *records) value(d *jsontext.Decoder, at position, yield func(*Event) bool) error {
	kind := d.PeekKind()
	at.depth++
	switch {
	case at.depth > maxDepth:
	case kind == '{':
		return r.object(d, at, yield)
	case kind == '[':
		return r.list(d, at, yield)
	case kind == '"' && !at.quoted:
		raw, err := d.ReadValue()
		if err != nil {
			return err
		}
		inner, _ := jsontext.AppendUnquote(nil, raw) // invalid UTF-8 is replaced
		at.quoted = true
		err = r.find(&text{ahead: inner}, at, yield)
		if err == nil || errors.Is(err, errStop) {
			return err
		}
		r.count(err)
		return nil
	}
	return d.SkipValue()
}

// list reads a list and yields the events in the list.
func (r *records) list(d *jsontext.Decoder, at position, yield func(*Event) bool) error {
	_, err := d.ReadToken()
	at.inList = true
	for err == nil && d.PeekKind() != ']' {
		err = r.value(d, at, yield)
	}
	if err != nil {
		return err
	}
	_, err = d.ReadToken()
	return err
}

// object reads an object. It yields the events in the members of an envelope, or the object itself
// if it is an event. An object that only looks like an event counts as malformed, and so does any
// other object in a list.
func (r *records) object(d *jsontext.Decoder, at position, yield func(*Event) bool) error {
	e, before, large := &r.inside[at.depth], r.events, r.large
	r.google = false
	err := e.read(d, func(name []byte) error {
		r.google = r.google || string(name) == "protoPayload"
		if !slices.Contains(envelopes, string(name)) {
			return d.SkipValue()
		}
		return r.value(d, position{depth: at.depth, quoted: at.quoted}, yield)
	})
	if err != nil || r.events > before {
		return err
	}
	if e.long {
		r.count(errLong)
		return nil
	}
	if err = e.complete(at.inList); err == nil {
		r.events++
		if !yield(e) {
			return errStop
		}
		return nil
	}
	if r.google && errors.Is(err, ErrOtherKind) {
		err = ErrGoogle
	}
	if r.fault = err; (at.inList || !errors.Is(err, ErrOtherKind)) && r.large == large {
		r.count(err)
	}
	return nil
}

// text is a line, or a string in a line, that contains JSON among other characters.
type text struct {
	ahead   []byte    // bytes that were read from src but not used
	src     io.Reader // nil: the text ends after ahead
	buf     []byte    // the buffer of more
	decoder *jsontext.Decoder
	given   int64 // how many bytes the decoder has received
	last    byte  // the last byte that the decoder received
}

// skip skips the characters before the next object or list, and reports whether one follows. It
// also skips a brace that no member follows, and a bracket that no item follows.
func (t *text) skip() bool {
	const space = " \t\r\n"
	for {
		at := bytes.IndexAny(t.ahead, "{[")
		if at < 0 {
			if t.ahead = nil; !t.more() {
				return false
			}
			continue
		}
		t.ahead = t.ahead[at:]
		first := bytes.TrimLeft(t.ahead[1:], space)
		for len(first) == 0 && len(t.ahead) < bufferSize && t.more() {
			first = bytes.TrimLeft(t.ahead[1:], space)
		}
		begins := `"}`
		if t.ahead[0] == '[' {
			begins = "{[]"
		}
		if len(first) == 0 || strings.IndexByte(begins, first[0]) >= 0 {
			return true
		}
		t.ahead = t.ahead[1:]
	}
}

// more reads more of the text into ahead, and reports whether it read any bytes.
func (t *text) more() bool {
	if t.src == nil {
		return false
	}
	if t.buf == nil {
		t.buf = make([]byte, 4096)
	}
	n, _ := t.src.Read(t.buf) // ignore the error: the next Read returns it again
	t.ahead = append(t.ahead, t.buf[:n]...)
	return n > 0
}

// decode sets t.decoder to read from the text.
func (t *text) decode() {
	if t.decoder == nil {
		t.decoder = new(jsontext.Decoder)
	}
	t.given = 0
	if t.src != nil {
		t.decoder.Reset(t, lenient...)
		return
	}
	t.decoder.Reset(bytes.NewBuffer(t.ahead), lenient...)
	t.ahead = nil
}

// Read passes the text to the decoder. The error is errLong if the decoder reads a string that is
// too long.
func (t *text) Read(p []byte) (n int, err error) {
	if t.given-t.decoder.InputOffset() > maxToken {
		return 0, errLong
	}
	n = copy(p, t.ahead)
	if t.ahead = t.ahead[n:]; n == 0 {
		n, err = t.src.Read(p)
	}
	t.given += int64(n)
	if n > 0 {
		t.last = p[n-1]
	}
	return n, err
}

// faultOf converts an error of the decoder to errLong, errStop or a Fault.
func (t *text) faultOf(err error) error {
	for _, known := range []error{errStop, errLong} {
		if errors.Is(err, known) {
			return known
		}
	}
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	atEnd := ok && t.last == '\n' && syntax.ByteOffset == t.given-1 // the line ends inside a string
	if !ok || atEnd || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrCutOff
	}
	return ErrInvalid
}
