package evidence

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/request"
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

	resumes bool // a WATCH starts after a version, or wants no initial events
}

// ParseQuery reads the query of a request's URI as kube-apiserver does.
func ParseQuery(uri []byte) Query {
	i := bytes.IndexByte(uri, '?')
	if i < 0 {
		return Query{}
	}
	q := request.Query(uri[i+1:])
	version, fields := q.Get("resourceVersion"), q.Get("fieldSelector")
	_, initial := q.Lookup("sendInitialEvents")
	return Query{
		Version:   version,
		Exact:     q.Get("resourceVersionMatch") == string(metav1.ResourceVersionMatchExact),
		Limit:     number(q, "limit"),
		Continued: q.Get("continue") != "",
		Selected:  fields != "" || q.Get("labelSelector") != "",
		OneObject: requires(fields, "metadata.name="),
		OneNode:   requires(fields, "spec.nodeName="),
		Timeout:   time.Duration(min(number(q, "timeoutSeconds"), longest/1e6)) * time.Second,
		resumes:   initial && !q.Flag("sendInitialEvents") || !initial && version != "" && version != "0",
	}
}

// number returns a parameter that no server accepts unless it is a number.
func number(q request.Query, name string) int64 {
	n, _ := strconv.ParseInt(q.Get(name), 10, 64)
	return max(n, 0)
}

// requires reports whether a field selector has a term that starts with prefix.
func requires(selector, prefix string) bool {
	return strings.HasPrefix(selector, prefix) || strings.Contains(selector, ","+prefix)
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
func (q Query) InitialList() bool { return !q.resumes }
