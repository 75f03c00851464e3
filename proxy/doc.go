// Package proxy is a caching proxy in front of kube-apiserver. It caches resources, each by one
// LIST and one WATCH upstream, and answers LIST, WATCH and GET of all clients out of them. It
// forwards every other request with the caller's own identity.
//
// # Who may read
//
// The proxy answers a read only for a caller whom the upstream knows and allows. A bearer token is
// checked by TokenReview, a client certificate by the upstream's client CA, a front proxy's headers
// by its request-header CA. SubjectAccessReview must allow exactly this read: verb, group, version,
// resource, namespace, name, field and label selector. Both answers are cached for seconds. Reads
// of other callers are forwarded, so the upstream refuses them with its own message. Requests
// without credentials and requests that impersonate are forwarded too.
//
// The caller of a watch is reviewed again every Options.Recheck. The watch ends when the token,
// certificate or permission is no longer valid. While the upstream cannot be reached, watches stay
// open and reads are served by the last answer, for up to Options.OutageGrace; impersonation,
// writes and metrics are not. An upstream that answers a review with an error allows nothing: reads
// get 503, and watches end after three such answers.
//
// # What the proxy answers
//
// It answers LIST and GET with a resourceVersion, and WATCH. Consistent reads (a LIST or WATCH
// without resourceVersion) are answered once the copy is proven to be current. They are forwarded
// if the resource has fewer than a hundred objects, or the proof takes more than three seconds.
// Options.TrustCache names resources that need no proof. The proxy forwards a GET of the current
// state, a WATCH or LIST of a resourceVersion older than the log, and what the cache cannot answer
// as kube-apiserver would: tables, unknown selectors, unknown media types, and requests with an
// Origin header.
//
// # How identities are forwarded
//
// A bearer token is forwarded unchanged. A client certificate or a front proxy's headers end at the
// proxy, as TLS does. Such a caller is forwarded by impersonation headers with the proxy's own
// credentials, which need the right to impersonate. A caller with a token that impersonates
// (kubectl --as) is forwarded unchanged. For one with a certificate the proxy makes the same
// SubjectAccessReviews for the verb impersonate as kube-apiserver, and then forwards the
// impersonated identity.
//
// # Bounds
//
// Options.MemoryBudget bounds the resources cached on demand, not Options.Resources. A relist
// with more than 32 MiB of changed objects ends the resource's watches instead of ordering the
// changes. Options bound the open connections and the requests in progress. Connections that do not
// answer pings are closed. Connections without an accepted credential share 96 MB, request heads 64
// MB, and unread responses 96 MB. Further bounds:
//   - headers: 256 KiB and 30 seconds
//   - a write to a client that takes nothing: five minutes; of a connection without an accepted
//     credential, and the end of a response: ten seconds
//   - a LIST: a minute, and a second for each 256 KiB
//   - the initial events of a WATCH, and a forwarded answer that has a seat: a minute, and a second
//     for each 32 KiB
package proxy
