package evidence

import (
	"bytes"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/weirproject/weir/internal/core/views"
)

const (
	latencyPrefix = "apiserver.latency.k8s.io/"
	queueWait     = latencyPrefix + "apf-queue-wait"
	storage       = latencyPrefix + "etcd"
)

// lenient are the options of decoders. They accept invalid UTF-8 and replace it, because logs
// contain what clients sent.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// Parse replaces the contents of e with the Event in a line. The error is a Fault. It is ErrInvalid
// if the line is not one JSON object or a field has a wrong type. Otherwise it says why the object
// is no Event. If a field occurs twice, the last one counts.
func (e *Event) Parse(line []byte) error {
	if e.decoder == nil {
		e.decoder, e.input = new(jsontext.Decoder), new(bytes.Buffer)
	}
	*e.input = *bytes.NewBuffer(line)
	e.decoder.Reset(e.input, lenient...)
	if e.read(e.decoder, func([]byte) error { return skip(e.decoder) }) != nil {
		return ErrInvalid
	}
	if len(bytes.TrimSpace(e.decoder.UnreadBuffer())) > 0 {
		return ErrInvalid
	}
	return e.complete(false)
}

// complete sets the fields that depend on several members of the object. It is called after read.
// It returns a Fault if the object is no Event. Items of a list need no kind, because the list has
// one.
func (e *Event) complete(inList bool) error {
	implied := inList && len(e.kind)+len(e.apiVersion) == 0 && len(e.URI) > 0
	switch {
	case e.invalid:
		return ErrInvalid
	case implied:
	case string(e.kind) != "Event" || !bytes.HasPrefix(e.apiVersion, []byte("audit.k8s.io/")):
		return ErrOtherKind
	case string(e.apiVersion) != "audit.k8s.io/v1":
		return ErrOtherVersion
	}
	switch {
	case len(e.Stage) == 0:
		return ErrNoStage
	case e.Staged == 0:
		return ErrNoTime
	}
	if len(e.as) > 0 && !bytes.Equal(e.as, e.User) {
		e.User, e.Via, e.Pod = e.as, e.User, e.asPod
	}
	e.QueueWait, e.Storage = min(e.QueueWait, e.Latency()), min(e.Storage, e.Latency())
	return nil
}

// read replaces the contents of e with the object at which d is. It calls the function other for
// each member that is not part of an Event; other must read the member's value. read returns the
// errors of d and of other.
func (e *Event) read(d *jsontext.Decoder, other func(name []byte) error) error {
	*e = Event{scratch: e.scratch[:0], decoder: e.decoder, input: e.input}
	return e.members(d, func(name []byte) error {
		switch string(name) {
		case "kind":
			return e.text(d, &e.kind)
		case "apiVersion":
			return e.text(d, &e.apiVersion)
		case "auditID":
			return e.text(d, &e.AuditID)
		case "stage":
			return e.text(d, &e.Stage)
		case "requestURI":
			return e.text(d, &e.URI)
		case "verb":
			return e.text(d, &e.Verb)
		case "userAgent":
			return e.text(d, &e.Agent)
		case "requestReceivedTimestamp":
			return e.time(d, &e.Received)
		case "stageTimestamp":
			return e.time(d, &e.Staged)
		case "sourceIPs":
			return e.first(d, &e.IP)
		case "user":
			return e.members(d, func(name []byte) error { return e.identity(d, name, &e.User, &e.Pod) })
		case "impersonatedUser":
			return e.members(d, func(name []byte) error { return e.identity(d, name, &e.as, &e.asPod) })
		case "objectRef":
			return e.members(d, func(name []byte) error { return e.object(d, name) })
		case "responseStatus":
			return e.members(d, func(name []byte) error { return e.status(d, name) })
		case "annotations":
			return e.members(d, func(name []byte) error { return e.annotation(d, name) })
		}
		return other(name)
	})
}

// skip skips a value by reading it, which stores the whole value in d's buffer. If the value is
// small or already in the buffer, that is faster than SkipValue, which stores nothing.
func skip(d *jsontext.Decoder) error {
	_, err := d.ReadValue()
	return err
}

// members calls the function member with the name of each member of the object at which d is. The
// function must read the member's value. If d is at null instead of an object, members skips it. If
// d is at any other value, the event is invalid.
func (e *Event) members(d *jsontext.Decoder, member func(name []byte) error) error {
	token, err := d.ReadToken()
	switch kind := token.Kind(); {
	case err != nil || kind == 'n':
		return err
	case kind == '[':
		e.invalid = true
		return rest(d)
	case kind != '{':
		e.invalid = true
		return nil
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadValue()
		if err != nil {
			return err
		}
		if err := member(name[1 : len(name)-1]); err != nil {
			return err
		}
	}
	_, err = d.ReadToken()
	return err
}

// rest skips the rest of the object or list in which d is.
func rest(d *jsontext.Decoder) error {
	for kind := d.PeekKind(); kind != '}' && kind != ']'; kind = d.PeekKind() {
		if err := skip(d); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// object reads a member of objectRef.
func (e *Event) object(d *jsontext.Decoder, name []byte) error {
	switch string(name) {
	case "resource":
		return e.text(d, &e.Object.Resource)
	case "apiGroup":
		return e.text(d, &e.Object.Group)
	case "apiVersion":
		return e.text(d, &e.Object.Version)
	case "subresource":
		return e.text(d, &e.Object.Subresource)
	case "namespace":
		return e.text(d, &e.Object.Namespace)
	case "name":
		return e.text(d, &e.Object.Name)
	}
	return skip(d)
}

// status reads a member of responseStatus.
func (e *Event) status(d *jsontext.Decoder, name []byte) error {
	switch string(name) {
	case "reason":
		return e.text(d, &e.Reason)
	case "code":
		text, err := d.ReadValue()
		n, invalid := strconv.ParseInt(string(text), 10, 32)
		e.Code, e.invalid = int(n), e.invalid || invalid != nil
		return err
	}
	return skip(d)
}

// identity reads a member of a user: the user's name, or the Pod in extra, which maps names to
// lists.
func (e *Event) identity(d *jsontext.Decoder, name []byte, user, pod *[]byte) error {
	switch string(name) {
	case "username":
		return e.text(d, user)
	case "extra":
		if d.PeekKind() == '{' {
			return e.members(d, func(name []byte) error {
				if string(name) == "authentication.kubernetes.io/pod-name" {
					return e.first(d, pod)
				}
				return skip(d)
			})
		}
	}
	return skip(d)
}

// annotation reads the annotations that contain durations. It ignores an annotation that is not a
// duration.
func (e *Event) annotation(d *jsontext.Decoder, name []byte) error {
	var to *time.Duration
	switch string(name) {
	case queueWait:
		to = &e.QueueWait
	case storage:
		to = &e.Storage
	default:
		return skip(d)
	}
	var text []byte
	err := e.text(d, &text)
	wait, _ := time.ParseDuration(views.String(text)) // 0 if it is not a duration
	*to = max(0, wait)
	return err
}

// text reads a string. For null it leaves the string empty. All strings together store at most
// MaxLine bytes.
func (e *Event) text(d *jsontext.Decoder, to *[]byte) error {
	raw, err := d.ReadValue()
	*to = nil
	switch kind := raw.Kind(); {
	case err != nil || kind == 'n':
	case kind != '"':
		e.invalid = true
	case len(e.scratch)+len(raw) > MaxLine:
		e.long = true
	case d == e.decoder && bytes.IndexByte(raw, '\\') < 0: // d is Parse's: raw is part of the line
		*to = raw[1 : len(raw)-1]
	default:
		from := len(e.scratch)
		e.scratch, _ = jsontext.AppendUnquote(e.scratch, raw) // invalid UTF-8 is replaced
		*to = e.scratch[from:len(e.scratch):len(e.scratch)]
	}
	return err
}

// first reads the first string of a list and skips the rest of the list.
func (e *Event) first(d *jsontext.Decoder, to *[]byte) error {
	*to = nil
	token, err := d.ReadToken()
	kind := token.Kind()
	if err != nil || kind != '[' && kind != '{' {
		return err
	}
	if kind == '[' && d.PeekKind() == '"' {
		if err := e.text(d, to); err != nil {
			return err
		}
	}
	return rest(d)
}

// time reads a time as microseconds since 1970. null gives 0.
func (e *Event) time(d *jsontext.Decoder, to *int64) error {
	var text []byte
	err := e.text(d, &text)
	if *to = 0; text != nil {
		var t time.Time
		e.invalid = t.UnmarshalText(text) != nil || e.invalid
		*to = t.UnixMicro()
	}
	return err
}
