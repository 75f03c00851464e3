package audit

import (
	"bytes"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Query is what a LIST or WATCH asks for in its URI. The zero value is a LIST of everything, as new
// as can be, in one answer.
type Query struct {
	Version   string // resourceVersion
	Exact     bool   // resourceVersionMatch=Exact
	Limit     int64  // of objects in one answer; 0: none
	Continued bool   // continue: a page behind the first
	Selected  bool   // by labels or by fields
	OneObject bool   // by metadata.name: costs no more than a GET
	OneNode   bool   // by spec.nodeName, which kube-apiserver has an index of pods for

	Timeout time.Duration // timeoutSeconds, a week at most; 0: none

	initialEvents string // sendInitialEvents
}

// ParseQuery reads the query of a request's URI. Parameters that cannot be unescaped are taken as
// they are.
func ParseQuery(uri []byte) Query {
	var q Query
	i := bytes.IndexByte(uri, '?')
	if i < 0 {
		return q
	}
	for pair := range strings.SplitSeq(string(uri[i+1:]), "&") {
		name, value, _ := strings.Cut(pair, "=")
		if value != "" {
			q.set(name, value)
		}
	}
	return q
}

func (q *Query) set(name, value string) {
	switch name {
	case "resourceVersion":
		q.Version = value
	case "resourceVersionMatch":
		q.Exact = value == "Exact"
	case "limit":
		n, _ := strconv.ParseInt(value, 10, 64) // 0 if it is no number, which no server accepts
		q.Limit = max(n, 0)
	case "continue":
		q.Continued = true
	case "labelSelector":
		q.Selected = true
	case "fieldSelector":
		q.Selected = true
		if text, err := url.QueryUnescape(value); err == nil {
			value = text
		}
		q.OneObject = strings.HasPrefix(value, "metadata.name=") || strings.Contains(value, ",metadata.name=")
		q.OneNode = strings.HasPrefix(value, "spec.nodeName=") || strings.Contains(value, ",spec.nodeName=")
	case "timeoutSeconds":
		n, _ := strconv.ParseInt(value, 10, 64) // 0 if it is no number, which no server accepts
		q.Timeout = time.Duration(min(max(n, 0), longest/1e6)) * time.Second
	case "sendInitialEvents":
		q.initialEvents = strings.ToLower(value)
	}
}

// Quorum reports whether a LIST must be as new as its storage, so that the server has to ask it:
// there is no resourceVersion, or exactly one that is given. A page behind the first belongs to the
// LIST that it continues.
func (q Query) Quorum() bool { return !q.Continued && (q.Version == "" || q.Exact) }

// FirstOnly reports whether a LIST asks for a single object, whichever comes next, as those do who
// want to know the newest version, or whether there is any object: it costs no more than a GET. The
// watch cache heeds no limit where any version will do, and holds objects against a selector until
// one matches.
func (q Query) FirstOnly() bool { return q.Limit == 1 && q.Version != "0" && !q.Selected }

// InitialList reports whether a WATCH begins with a LIST: with the objects that there are, each as
// an event. It does so unless it names a version that it goes on from, or wants none of them.
func (q Query) InitialList() bool {
	if q.initialEvents == "" {
		return q.Version == "" || q.Version == "0"
	}
	return q.initialEvents != "false" && q.initialEvents != "0"
}
