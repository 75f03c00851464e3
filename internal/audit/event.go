// Package audit reads kube-apiserver's audit logs: lines of JSON, each an Event of audit.k8s.io/v1.
// It reads the few fields that tell who asked for what, when, and how long that took, in one pass
// and without an allocation for each line.
package audit

import (
	"bytes"
	"time"
)

// The stages of a request that are told from others.
const (
	StageResponseStarted  = "ResponseStarted"
	StageResponseComplete = "ResponseComplete"
)

// Event is one line of an audit log. Its bytes alias the line that it was parsed from or a buffer
// of its own: they are valid until the next Parse, and must not be modified. A field that the line
// does not have is empty. The zero value is ready for Parse. It is not safe for concurrent use.
type Event struct {
	AuditID  []byte // the same in all stages of a request
	Stage    []byte
	URI      []byte // with the query, as the client sent it
	Verb     []byte // Kubernetes' verb, or the method in lower case
	User     []byte // whose rights count: the impersonated user, if there is one
	Via      []byte // who authenticated, if that is another user
	Agent    []byte
	Pod      []byte // the Pod whose token User has; logged for service accounts of Pods
	IP       []byte // the first of sourceIPs, which proxies on the way have passed on
	Object   Object
	Code     int    // of the response; 0 if there is none yet
	Reason   []byte // of the Status that was answered, such as TooManyRequests
	Received int64  // microseconds since 1970
	Staged   int64  // when the request reached Stage; microseconds since 1970
	// QueueWait is the time in priority and fairness's queues. kube-apiserver tells it of slow
	// requests.
	QueueWait time.Duration
	Storage   time.Duration // waiting for etcd; told of slow requests as well

	apiVersion, kind []byte
	as, asPod        []byte // who is impersonated
	scratch          []byte // unescaped strings; bounded by the line's length
}

// Object is what a request was about. Resource is empty for requests of no resource, such as
// /healthz.
type Object struct {
	Group, Version, Resource, Subresource, Namespace, Name []byte
}

// clone returns a copy on bytes of its own.
func (e *Event) clone() *Event {
	c := *e
	c.scratch, c.kind, c.apiVersion, c.as, c.asPod = nil, nil, nil, nil, nil
	for _, text := range []*[]byte{
		&c.AuditID, &c.Stage, &c.URI, &c.Verb, &c.User, &c.Via, &c.Agent, &c.Pod, &c.IP, &c.Object.Group, &c.Object.Version,
		&c.Reason, &c.Object.Resource, &c.Object.Subresource, &c.Object.Namespace, &c.Object.Name,
	} {
		*text = bytes.Clone(*text)
	}
	return &c
}

// Refused reports whether the server turned the request away for having too much to do. Priority
// and fairness, and the limit of requests in flight, answer 429 in plain text, so that no reason is
// logged. A 429 with a reason is of another kind: an eviction that a PodDisruptionBudget does not
// allow yet, or a watch cache that is not ready. An eviction never counts.
func (e *Event) Refused() bool {
	return e.Code == 429 && len(e.Reason) == 0 && string(e.Object.Subresource) != "eviction"
}

// longest is how long a request may take, beyond which its arrival is taken for a mistake. WATCHes
// are over within hours.
const longest = int64(7 * 24 * time.Hour / time.Microsecond)

// Latency returns the time from the request's arrival to its stage, at least 0; 0 as well if the
// line does not say.
func (e *Event) Latency() time.Duration {
	return time.Duration(e.Staged-e.Begun()) * time.Microsecond
}

// Begun returns when the request arrived, in microseconds since 1970, or the stage's time if the
// line does not say, or cannot be right.
func (e *Event) Begun() int64 {
	if e.Received <= 0 || e.Received > e.Staged || e.Staged-e.Received > longest {
		return e.Staged
	}
	return e.Received
}

// Place returns what tells the machines of one client apart: the user if that is a node's, or the
// Pod, which no load balancer hides, else the IP.
func (e *Event) Place() []byte {
	if bytes.HasPrefix(e.User, []byte("system:node:")) {
		return e.User
	}
	if len(e.Pod) > 0 {
		return e.Pod
	}
	return e.IP
}
