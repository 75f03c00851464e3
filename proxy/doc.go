// Package proxy is a caching proxy in front of kube-apiserver. It caches resources, with one LIST
// and one WATCH upstream for each. From this cache it answers the LIST, WATCH and GET requests of
// all clients. It forwards every other request with the caller's own identity.
//
// # Who may read
//
// The proxy answers a read only if the upstream authenticates and authorizes the caller.
// TokenReview checks a bearer token. The upstream's client CA verifies a client certificate, and
// its request-header CA verifies the certificate of a front proxy, whose headers name the caller.
// SubjectAccessReview must allow this read (verb, group, version, resource, namespace, name, field
// and label selector), or the same read without selectors. The proxy caches the answers to both
// reviews for seconds. It forwards the reads of callers that a review does not allow, so that the
// upstream refuses them with its own message. It also forwards requests without credentials and
// requests that impersonate.
//
// The proxy repeats the reviews for the caller of a watch every Options.Recheck. The watch ends
// when the token, certificate or permission is no longer valid. While the upstream cannot be
// reached, watches stay open, and the proxy serves reads by the last review answers, for up to
// Options.OutageGrace. Old review answers do not allow impersonation, writes or metrics. If the
// upstream answers a review with an error, the caller is not allowed: reads get 503, and watches
// end after three such answers.
//
// # What the proxy answers
//
// The proxy answers WATCHes, and LISTs and GETs that have a resourceVersion. It answers a
// consistent read (a LIST or WATCH without resourceVersion) after it has proven that the cache is
// current. It forwards consistent reads if the resource has fewer than a hundred objects, or if the
// proof takes more than three seconds. Options.TrustCache names resources whose consistent reads
// need no proof. The proxy always forwards a GET without resourceVersion. It also forwards a WATCH
// or LIST of a resourceVersion that is older than the change log, and what it cannot answer exactly
// as kube-apiserver would. Examples are tables, unknown selectors, unknown media types, and
// requests with an Origin header.
//
// # How identities are forwarded
//
// The proxy forwards a bearer token unchanged. It cannot forward a client certificate or a front
// proxy's certificate, because TLS ends at the proxy. It forwards the requests of such a caller
// with its own credentials and impersonation headers. These credentials need the right to
// impersonate. A request with a token that impersonates (kubectl --as) is forwarded unchanged. If a
// caller with a certificate impersonates, the proxy sends the same SubjectAccessReviews for the
// verb impersonate as kube-apiserver does, and then forwards the impersonated identity.
//
// # Bounds
//
// Options.MemoryBudget bounds the resources cached on demand, not Options.Resources. A relist with
// more than 32 MiB of changed objects ends the resource's watches, because the proxy would have to
// order the changes. Options bound the open connections and the requests in progress. The proxy
// closes connections that do not answer pings. Three bounds are fixed. All connections without an
// accepted credential together use up to 96 MiB. The heads of all requests (request line and
// headers) use up to 64 MiB. The streams of all responses that clients do not read use up to 96
// MiB. Options.ResponseMemory bounds the content of such responses. Further bounds:
//   - headers: 256 KiB and 30 seconds
//   - a write to a client that reads nothing: five minutes; ten seconds on a connection without an
//     accepted credential, and for the end of a response
//   - a LIST: a minute, and a second for each 256 KiB
//   - the initial events of a WATCH, and a forwarded response to a request that is not
//     long-running: a minute, and a second for each 32 KiB
package proxy
