package audit

import (
	"bytes"
	"strconv"
	"time"
)

const (
	latencyPrefix = "apiserver.latency.k8s.io/"
	queueWait     = latencyPrefix + "apf-queue-wait"
	storage       = latencyPrefix + "etcd"
)

// Parse reads a line in place of what e has. The error is a Fault: ErrInvalid if the line is not
// one JSON object or a field that is read is not of its type, or else what the Event has not.
// Values that are not read are skipped unchecked. Of a field that occurs twice the last one counts.
func (e *Event) Parse(line []byte) error { return e.parse(line, false) }

// parse is Parse. In a list, which has a kind of its own, an Event needs none.
func (e *Event) parse(line []byte, inList bool) error {
	*e = Event{scratch: e.scratch[:0]}
	s := &scanner{b: line}
	ok := s.members(func(name []byte) bool { return e.member(s, name) })
	implied := inList && len(e.kind)+len(e.apiVersion) == 0 && len(e.URI) > 0
	switch {
	case !ok || s.peek() != 0 || s.i < len(line):
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

// member reads the value of one of the event's own members.
func (e *Event) member(s *scanner, name []byte) bool {
	switch string(name) {
	case "kind":
		return e.text(s, &e.kind)
	case "apiVersion":
		return e.text(s, &e.apiVersion)
	case "auditID":
		return e.text(s, &e.AuditID)
	case "stage":
		return e.text(s, &e.Stage)
	case "requestURI":
		return e.text(s, &e.URI)
	case "verb":
		return e.text(s, &e.Verb)
	case "userAgent":
		return e.text(s, &e.Agent)
	case "requestReceivedTimestamp":
		return e.time(s, &e.Received)
	case "stageTimestamp":
		return e.time(s, &e.Staged)
	case "sourceIPs":
		return e.first(s, &e.IP)
	case "user", "impersonatedUser", "objectRef", "responseStatus", "annotations":
		if s.peek() == 'n' {
			return s.skip()
		}
		return s.members(func(inner []byte) bool { return e.inner(s, name[0], inner) })
	}
	return s.skip()
}

// inner reads a member of a member, which its first letter tells.
func (e *Event) inner(s *scanner, outer byte, name []byte) bool {
	switch outer {
	case 'u':
		return e.identity(s, name, &e.User, &e.Pod)
	case 'i':
		return e.identity(s, name, &e.as, &e.asPod)
	case 'r':
		switch string(name) {
		case "code":
			return e.code(s)
		case "reason":
			return e.text(s, &e.Reason)
		}
	case 'a':
		return e.annotation(s, name)
	case 'o':
		switch string(name) {
		case "resource":
			return e.text(s, &e.Object.Resource)
		case "apiGroup":
			return e.text(s, &e.Object.Group)
		case "apiVersion":
			return e.text(s, &e.Object.Version)
		case "subresource":
			return e.text(s, &e.Object.Subresource)
		case "namespace":
			return e.text(s, &e.Object.Namespace)
		case "name":
			return e.text(s, &e.Object.Name)
		}
	}
	return s.skip()
}

// text reads a string; null is empty.
func (e *Event) text(s *scanner, to *[]byte) bool {
	if s.peek() == 'n' {
		*to = nil
		return s.skip()
	}
	raw, ok := s.text()
	if !ok {
		return false
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		*to = raw
		return true
	}
	from := len(e.scratch)
	e.scratch, ok = unescape(e.scratch, raw)
	*to = e.scratch[from:len(e.scratch):len(e.scratch)]
	return ok
}

// time reads a time; null is 0.
func (e *Event) time(s *scanner, to *int64) bool {
	var text []byte
	if !e.text(s, &text) {
		return false
	}
	*to = 0
	if text == nil {
		return true
	}
	var ok bool
	*to, ok = timestamp(text)
	return ok
}

// code reads responseStatus.code.
func (e *Event) code(s *scanner) bool {
	s.peek()
	from := s.i
	if !s.skip() {
		return false
	}
	n, err := strconv.ParseInt(string(s.b[from:s.i]), 10, 32)
	e.Code = int(n)
	return err == nil
}

// identity reads a member of a user: the name, and in extra, which has lists by name, the Pod.
func (e *Event) identity(s *scanner, name []byte, user, pod *[]byte) bool {
	switch {
	case string(name) == "username":
		return e.text(s, user)
	case string(name) != "extra" || s.peek() != '{':
		return s.skip()
	}
	return s.members(func(name []byte) bool {
		if string(name) == "authentication.kubernetes.io/pod-name" {
			return e.first(s, pod)
		}
		return s.skip()
	})
}

// first reads the first string of a list and skips the others.
func (e *Event) first(s *scanner, to *[]byte) bool {
	*to = nil
	list := *s
	if !s.skip() {
		return false
	}
	if list.take('[') && list.peek() == '"' {
		return e.text(&list, to)
	}
	return true
}

// annotation reads the annotations that tell where the time went, and skips the others. One that is
// no duration says nothing.
func (e *Event) annotation(s *scanner, name []byte) bool {
	var to *time.Duration
	switch string(name) {
	case queueWait:
		to = &e.QueueWait
	case storage:
		to = &e.Storage
	default:
		return s.skip()
	}
	var text []byte
	if !e.text(s, &text) {
		return false
	}
	d, _ := time.ParseDuration(string(text)) // 0 if it is none
	*to = max(0, d)
	return true
}
