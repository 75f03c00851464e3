// Package request parses requests to an API server: their paths, query parameters and Accept
// headers. One [Request] carries a GET, LIST or WATCH from parsing through authorization to the
// answer.
//
// Three kinds of callers need three degrees of strictness. [Strict] returns only requests of which
// it understands all, written in the one way that every server reads alike, for a proxy that
// forwards all others. [Parse] accepts what kube-apiserver accepts and returns kube-apiserver's
// errors, for a server of its own. [InfoOf] and [Query] look up single facts, for callers that
// count, log or limit requests; they cost little and never fail.
//
// kube-apiserver's own parsers are the oracles of this package, see the tests of the proxy.
package request
