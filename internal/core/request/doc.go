// Package request parses requests to an API server: their paths, query parameters and Accept
// headers. A [Request] is a parsed GET, LIST or WATCH; a server uses the same Request to authorize
// it and to serve it.
//
// There are three degrees of strictness, for three kinds of callers. [Strict] is for a proxy. It
// returns only requests that this package understands completely, and that every server reads in
// the same way. The proxy forwards all other requests. [Parse] is for a server. It accepts the
// requests that kube-apiserver accepts, and returns kube-apiserver's errors. [InfoOf] and [Query]
// are for callers that count, log or limit requests. They look up single facts, cost little and
// never fail.
//
// The proxy's tests compare this package with kube-apiserver's own parsers.
package request
