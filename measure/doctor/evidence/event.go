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

// The stages of a request that package doctor distinguishes.
const (
	StageResponseStarted  = "ResponseStarted"
	StageResponseComplete = "ResponseComplete"
)

// Event is one line of an audit log. Its bytes are parts of the parsed line or of the Event's own
// buffer. The bytes are valid until the next Parse, and must not be modified. A field that the line
// lacks is empty. The zero value is ready for Parse. An Event is not safe for concurrent use.
type Event struct {
	AuditID  []byte // equal in all stages of a request
	Stage    []byte
	URI      []byte // with the query, as sent by the client
	Verb     []byte // Kubernetes' verb, or the HTTP method in lower case
	User     []byte // the user whose rights count: the impersonated one, if any
	Via      []byte // the user that authenticated, if it differs from User
	Agent    []byte
	Pod      []byte // the Pod that User's token belongs to; only for service accounts of Pods
	IP       []byte // the first of sourceIPs, which proxies in front of the server pass on
	Object   Object
	Code     int    // of the response; 0 if there is none yet
	Reason   []byte // of the Status in the response, such as TooManyRequests
	Received int64  // microseconds since 1970
	Staged   int64  // when the request reached Stage; microseconds since 1970
	// QueueWait is the time in the queues of priority and fairness. kube-apiserver logs it only for
	// slow requests.
	QueueWait time.Duration
	Storage   time.Duration // the wait for etcd; only for slow requests

	apiVersion, kind []byte
	as, asPod        []byte // the impersonated user and its Pod
	invalid          bool   // a field has a wrong type
	long             bool   // the fields together have more than MaxLine bytes
	scratch          []byte // the bytes of fields that are not in the line; at most MaxLine

	decoder *jsontext.Decoder // of Parse
	input   *bytes.Buffer     // of the decoder
}

// Object is what a request is about. Resource is empty if the request is about a path such as
// /healthz.
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

// Refused reports whether the server rejected the request because of overload. In that case
// priority and fairness, or the limit of requests in flight, answer 429 in plain text, so the log
// contains no reason. A 429 with a reason has another cause, such as a watch cache that is not
// ready. An eviction never counts as refused: a PodDisruptionBudget may forbid it.
func (e *Event) Refused() bool {
	return e.Code == 429 && len(e.Reason) == 0 && string(e.Object.Subresource) != "eviction"
}

// longest is the longest duration that is believed. If a request seems to have lasted longer, its
// arrival time is considered wrong, because even WATCHes end within hours.
const longest = int64(7 * 24 * time.Hour / time.Microsecond)

// Latency returns the time from the request's arrival to its stage, at least 0. It returns 0 if the
// line does not say when the request arrived.
func (e *Event) Latency() time.Duration {
	return time.Duration(e.Staged-e.Begun()) * time.Microsecond
}

// Begun returns when the request arrived, in microseconds since 1970. If the line lacks that time,
// or the time cannot be right, Begun returns the time of the stage.
func (e *Event) Begun() int64 {
	if e.Received <= 0 || e.Received > e.Staged || e.Staged-e.Received > longest {
		return e.Staged
	}
	return e.Received
}

// Place returns a name for the machine that the client runs on: the user if it is a node, or else
// the Pod, or else the IP. The IP comes last, because it may belong to a load balancer.
func (e *Event) Place() []byte {
	if bytes.HasPrefix(e.User, []byte("system:node:")) {
		return e.User
	}
	if len(e.Pod) > 0 {
		return e.Pod
	}
	return e.IP
}

// Query contains what the URI of a LIST or WATCH asks for. The zero value is a LIST whose only
// answer contains all objects and is as new as etcd.
type Query struct {
	Version   string // resourceVersion
	Exact     bool   // resourceVersionMatch=Exact
	Limit     int64  // of objects in one answer; 0: no limit
	Continued bool   // has continue: a page after the first
	Selected  bool   // by labels or by fields
	OneObject bool   // by metadata.name: costs no more than a GET
	OneNode   bool   // by spec.nodeName, for which kube-apiserver has an index of pods

	Timeout time.Duration // timeoutSeconds, at most a week; 0: none

	resumes bool // a WATCH starts after a version, or wants no initial events
}

// ParseQuery parses the query of a request's URI like kube-apiserver does.
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

// number returns the value of a numeric parameter. It returns 0 if the value is missing, negative
// or not a number. Servers reject a request in which it is not a number.
func number(q request.Query, name string) int64 {
	n, _ := strconv.ParseInt(q.Get(name), 10, 64)
	return max(n, 0)
}

// requires reports whether a field selector has a term that starts with prefix.
func requires(selector, prefix string) bool {
	return strings.HasPrefix(selector, prefix) || strings.Contains(selector, ","+prefix)
}

// Quorum reports whether the server must read the LIST from etcd: the request has no
// resourceVersion, or asks for exactly one version. Quorum returns false for a page after the
// first, which belongs to an earlier LIST.
func (q Query) Quorum() bool { return !q.Continued && (q.Version == "" || q.Exact) }

// FirstOnly reports whether a LIST asks for any single object and costs no more than a GET: it has
// limit=1, and neither resourceVersion=0 nor a selector. Clients send such a LIST to get the newest
// version, or to know whether an object exists. With resourceVersion=0 the watch cache ignores the
// limit. With a selector the server compares objects until one matches.
func (q Query) FirstOnly() bool { return q.Limit == 1 && q.Version != "0" && !q.Selected }

// InitialList reports whether a WATCH starts with a LIST, which means that the server sends each
// object as an event. The server does so unless the WATCH starts after a version or wants no
// initial events.
func (q Query) InitialList() bool { return !q.resumes }
