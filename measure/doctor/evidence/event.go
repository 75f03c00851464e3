package evidence

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/request"
)

// The stages of a request that readers of events distinguish.
const (
	StageResponseStarted  = "ResponseStarted"
	StageResponseComplete = "ResponseComplete"
)

// Event is one line of an audit log. Its bytes alias the line that it was parsed from, or its own
// buffer. They are valid until the next Parse, and must not be modified. A field that the line does
// not have is empty. The zero value is ready for Parse. An Event is not safe for concurrent use.
type Event struct {
	AuditID  []byte // the same in all stages of a request
	Stage    []byte
	URI      []byte // with the query, as sent by the client
	Verb     []byte // Kubernetes' verb, or the method in lower case
	User     []byte // the user that was authorized: the impersonated one, if there is one
	Via      []byte // the user that authenticated, if that is another one
	Agent    []byte
	Pod      []byte // the Pod that User's token belongs to; logged for service accounts of Pods
	IP       []byte // the first of sourceIPs, which proxies on the way have passed on
	Object   Object
	Code     int    // of the response; 0 if there is none yet
	Reason   []byte // of the Status that was answered, such as TooManyRequests
	Received int64  // microseconds since 1970
	Staged   int64  // when the request reached Stage; microseconds since 1970
	// QueueWait is the time in the queues of priority and fairness. kube-apiserver logs it for slow
	// requests only.
	QueueWait time.Duration
	Storage   time.Duration // the wait for etcd; logged for slow requests only

	apiVersion, kind []byte
	as, asPod        []byte // the impersonated user and its Pod
	invalid          bool   // a field has a wrong type
	long             bool   // the fields have more than MaxLine bytes
	scratch          []byte // the bytes of fields that are not in the line; at most MaxLine

	decoder *jsontext.Decoder // of Parse
	input   *bytes.Buffer     // of the decoder
}

// Object is what a request was about. Resource is empty for requests that are not about a resource,
// such as /healthz.
type Object struct {
	Group, Version, Resource, Subresource, Namespace, Name []byte
}

// clone returns a deep copy.
func (e *Event) clone() *Event {
	c := *e
	c.scratch, c.kind, c.apiVersion, c.as, c.asPod, c.decoder, c.input = nil, nil, nil, nil, nil, nil, nil
	for _, text := range []*[]byte{
		&c.AuditID, &c.Stage, &c.URI, &c.Verb, &c.User, &c.Via, &c.Agent, &c.Pod, &c.IP, &c.Object.Group, &c.Object.Version,
		&c.Reason, &c.Object.Resource, &c.Object.Subresource, &c.Object.Namespace, &c.Object.Name,
	} {
		*text = bytes.Clone(*text)
	}
	return &c
}

// Refused reports whether the server rejected the request because of overload. Priority and
// fairness, and the limit of requests in flight, answer 429 in plain text, so the log has no
// reason. A 429 with a reason has another cause: an eviction that a PodDisruptionBudget does not
// allow yet, or a watch cache that is not ready. An eviction never counts.
func (e *Event) Refused() bool {
	return e.Code == 429 && len(e.Reason) == 0 && string(e.Object.Subresource) != "eviction"
}

// longest is how long a request may last. If it lasts longer, its arrival time is considered wrong.
// WATCHes end within hours.
const longest = int64(7 * 24 * time.Hour / time.Microsecond)

// Latency returns the time from the request's arrival to its stage, at least 0. It returns 0 if the
// line does not say when the request arrived.
func (e *Event) Latency() time.Duration {
	return time.Duration(e.Staged-e.Begun()) * time.Microsecond
}

// Begun returns when the request arrived, in microseconds since 1970. It returns the time of the
// stage if the line does not say, or if it says what cannot be right.
func (e *Event) Begun() int64 {
	if e.Received <= 0 || e.Received > e.Staged || e.Staged-e.Received > longest {
		return e.Staged
	}
	return e.Received
}

// Place returns a name of the machine that the client runs on: the user if that is a node, or the
// Pod, which no load balancer hides, or else the IP.
func (e *Event) Place() []byte {
	if bytes.HasPrefix(e.User, []byte("system:node:")) {
		return e.User
	}
	if len(e.Pod) > 0 {
		return e.Pod
	}
	return e.IP
}

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
