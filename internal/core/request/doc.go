// Package request parses requests to an API server: their paths, query parameters and Accept
// headers. One [Request] represents a GET, LIST or WATCH from parsing through authorization to the
// answer.
//
// Three kinds of callers need three degrees of strictness. [Strict] is for a proxy that forwards
// all other requests: it returns only requests that this package understands completely, and that
// have the one spelling that every server reads alike. [Parse] is for a server: it accepts the
// requests that kube-apiserver accepts and returns kube-apiserver's errors. [InfoOf] and [Query]
// are for callers that count, log or limit requests: they look up single facts, cost little and
// never fail.
//
// The proxy's tests compare this package with kube-apiserver's own parsers.
package request
