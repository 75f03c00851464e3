// Package proxy is a caching proxy in front of kube-apiserver. It holds resources, each by one LIST
// and one WATCH upstream, and answers LIST, WATCH and GET of everybody else out of them; every
// other request goes upstream with the caller's own identity.
//
// # Who may read
//
// A read is answered from here only for a caller whom the upstream vouches for: a bearer token by
// TokenReview, a client certificate by the upstream's client CA, a front proxy's headers by its
// request-header CA; and only if SubjectAccessReview allows exactly this read: verb, group,
// version, resource, namespace, name, field and label selector. Both answers are cached for
// seconds. Whoever is not known, or not allowed, is sent upstream, which has the last word and says
// it in its own words; so are requests without credentials, and requests that impersonate.
//
// A watch is asked about again every Options.Recheck, and ends when its caller's token, certificate
// or permission has. While the upstream cannot be reached at all, watches stay open, and reads go
// on by the last answer, for up to Options.Grace; impersonation, writes and metrics do not. An
// upstream that answers a review with an error allows nothing: reads get 503, and watches end after
// three of these.
//
// # What is answered from here
//
// LIST and GET with a resourceVersion, WATCH, and, once what is held is proven to be current, LISTs
// and WATCHes of the current state (no resourceVersion): unless there are fewer than a hundred
// objects, or the proof takes longer than three seconds. Options.Cached names resources for which
// these are answered from here without proof. A GET of the current state goes upstream. A WATCH
// from a resourceVersion that is older than the log, or a LIST of exactly such a state, goes
// upstream, and so does what the cache cannot answer as kube-apiserver would: tables, selectors
// that it does not know, media types that it does not speak.
//
// # How identities travel
//
// A bearer token goes upstream as it came. The identity of a client certificate or of a front
// proxy's headers ends here, since TLS does: it goes on by impersonation headers with the proxy's
// own credentials, which need the right to impersonate. A caller that impersonates by itself
// (kubectl --as) with a token is passed on whole; one with a certificate is asked about here, by
// the same SubjectAccessReviews for the verb impersonate that kube-apiserver makes, and then passed
// on as whom it impersonates.
//
// # Bounds
//
// Options.MemoryBudget bounds what is taken in because somebody asked for it, besides
// Options.Resources. A relist that finds more than 32 MiB of changed objects ends the resource's
// watches instead of putting them in order. Open connections, and requests of each kind that are
// under way, are bounded by Options; headers, selectors included, by 1 MiB and 30 seconds; a write
// to a client that takes nothing by five minutes; connections that answer no pings are closed.
package proxy
