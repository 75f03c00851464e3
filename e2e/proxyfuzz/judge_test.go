package proxyfuzz

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// exchange is one request, with the answers of the proxy and of kube-apiserver.
type exchange struct {
	request      *request
	seed         uint64 // seed of the request's round
	target       string // sent to kube-apiserver
	other        string // sent to the proxy; empty: target
	ours, theirs *answer
	faults       []string
	compared     bool // whether the bodies were compared
}

// ask sends a request to the proxy and to kube-apiserver at the same time, and judges the answers.
// If each server gets its own continue token, other is the target for the proxy. Otherwise other is
// empty, and the proxy and kube-apiserver get the same target.
func (w *world) ask(ctx context.Context, q *request, target, other string) *exchange {
	e := w.send(ctx, q, target, other)
	e.judge(w.known)
	for range maxAgain {
		if len(e.faults) == 0 || !e.cutShort() {
			break
		}
		e.add(w.send(ctx, q, target, other))
		e.faults = nil
		e.judge(w.known)
	}
	if len(e.faults) > 0 && e.forgotten() {
		e.faults = nil
		if !e.ours.expired() {
			e.leaks(w.known, w.server.send(ctx, w.listFor(q), listOf(e.target)))
		}
	}
	return e
}

// forgotten reports whether the proxy and kube-apiserver allow the caller to read the requested
// state, but one of them no longer has it. They may keep old states for different times. The caller
// of forgotten must then check that the objects in the proxy's answer, if there are any, exist now.
// Compared objects do not change, so the old state has the same objects.
func (e *exchange) forgotten() bool {
	lets := func(a *answer) bool { return a.err == nil && (a.code == http.StatusOK || a.expired()) }
	return lets(e.ours) && lets(e.theirs) && e.ours.expired() != e.theirs.expired() && e.request.method == http.MethodGet &&
		(strings.Contains(e.target, "resourceVersion=") || strings.Contains(e.target, "continue="))
}

// listFor returns a copy of q that an admin sends.
func (w *world) listFor(q *request) *request {
	admin := *q
	admin.caller = w.callers[slices.IndexFunc(w.callers, func(c caller) bool { return c.admin && c.token != "" })]
	admin.header = http.Header{"Accept": {"application/json"}, "Authorization": {"Bearer " + admin.caller.token}}
	admin.http1 = false
	return &admin
}

// listOf returns the target as a LIST of the current state: without the parameters for a watch, a
// page or an old state.
func listOf(target string) string {
	return without(target, "watch", "sendInitialEvents", "allowWatchBookmarks", "timeoutSeconds", "resourceVersion", "resourceVersionMatch", "limit", "continue")
}

// maxAgain bounds how often ask repeats a watch that may have been cut short.
const maxAgain = 5

func (w *world) send(ctx context.Context, q *request, target, other string) *exchange {
	e := &exchange{request: q, target: target, other: other}
	if other == "" {
		other = target
	}
	done := make(chan struct{}) // closed when the proxy has answered
	go func() {
		defer close(done)
		e.ours = w.proxied.send(ctx, q, other)
	}()
	e.theirs = w.server.send(ctx, q, target)
	<-done
	return e
}

// cutShort reports whether the request is a watch that the proxy and kube-apiserver allow. Such a
// watch may have been too short: on a busy machine, one second may not suffice for all initial
// events.
func (e *exchange) cutShort() bool {
	ok := func(a *answer) bool { return a.err == nil && a.code == http.StatusOK }
	return ok(e.ours) && ok(e.theirs) && e.request.method == http.MethodGet && strings.Contains(e.target, "watch=")
}

// add adds the objects in the answers to a repeated request. An object then counts as missing at a
// server only if none of the server's answers has it.
func (e *exchange) add(again *exchange) {
	for _, a := range [2][2]*answer{{e.ours, again.ours}, {e.theirs, again.theirs}} {
		if a[1].err != nil {
			continue
		}
		maps.Copy(a[0].uids, a[1].uids)
		for uid, versions := range a[1].shown {
			if a[0].shown[uid] == nil {
				a[0].shown[uid] = versions
				continue
			}
			maps.Copy(a[0].shown[uid], versions)
		}
	}
}

func (e *exchange) fault(format string, args ...any) {
	e.faults = append(e.faults, fmt.Sprintf(format, args...))
}

// judge records the faults of an exchange. known has the resourceVersions, by UID, of the objects
// that do not change.
func (e *exchange) judge(known map[string]string) {
	ours, theirs := e.ours, e.theirs
	if ours.err != nil || theirs.err != nil {
		// The proxy may answer an error because kube-apiserver's answer to the proxy broke off.
		brokeOff := theirs.err != nil && ours.err == nil && (ours.code == http.StatusServiceUnavailable || e.timedOut())
		if (ours.err == nil) != (theirs.err == nil) && !brokeOff {
			e.fault("the proxy: %v; kube-apiserver: %v", ours.err, theirs.err)
		}
		return
	}
	if e.local() {
		if ours.code < http.StatusBadRequest && theirs.code >= http.StatusBadRequest && !e.overdue() {
			e.fault("the proxy answers %d for itself, kube-apiserver %d", ours.code, theirs.code)
		}
		return
	}
	if e.late() {
		return
	}
	if ours.code != theirs.code && (e.strange() || e.constrained() || e.misplaced()) {
		e.leaks(known, theirs)
		return
	}
	if ours.code != theirs.code && !e.early() {
		e.fault("the proxy answers %d, kube-apiserver %d", ours.code, theirs.code)
	}
	e.leaks(known, theirs)
	if len(e.faults) > 0 || e.request.method != http.MethodGet {
		return
	}
	if !slices.Equal(ours.refused, theirs.refused) {
		e.fault("the proxy's watch ends with %v, kube-apiserver's with %v", ours.refused, theirs.refused)
	}
	for uid := range theirs.uids {
		if known[uid] != "" && !ours.uids[uid] {
			e.fault("the proxy does not show %s, and kube-apiserver does", uid)
		}
	}
	for uid, versions := range theirs.shown {
		if known[uid] != "" && !maps.Equal(ours.shown[uid], versions) {
			e.fault("the proxy shows %s at %v, kube-apiserver at %v", uid, ours.shown[uid], versions)
		}
	}
	if len(e.faults) == 0 {
		e.bodies()
	}
}

// leaks reports the objects that the proxy's answer has and theirs does not have. theirs is
// kube-apiserver's answer to the same caller. THE PROXY SHOWS marks such a fault.
func (e *exchange) leaks(known map[string]string, theirs *answer) {
	for uid := range e.ours.uids {
		if known[uid] != "" && !theirs.uids[uid] {
			e.fault("THE PROXY SHOWS %s, and kube-apiserver does not", uid)
		}
	}
	for uid, versions := range e.ours.shown {
		for version := range versions {
			if known[uid] != "" && !theirs.shown[uid][version] {
				e.fault("THE PROXY SHOWS %s at %s, and kube-apiserver does not", uid, version)
			}
		}
	}
}

// local reports whether the proxy answers for itself: it has its own health checks and metrics.
func (e *exchange) local() bool {
	path, _, _ := strings.Cut(e.target, "?")
	return path == "/livez" || path == "/readyz" || path == "/healthz" || path == "/metrics"
}

// constrained reports whether the proxy itself has refused to impersonate a user for a caller with
// a certificate. kube-apiserver may allow it, if the caller may use constrained impersonation.
func (e *exchange) constrained() bool {
	return e.request.caller.cert != nil && e.ours.code == http.StatusForbidden && e.ours.header.Get("Audit-Id") == "" &&
		bytes.Contains(e.ours.body, []byte("cannot impersonate"))
}

// timedOut reports whether the timeout in the request may have expired. It returns true in two
// cases: the proxy answers 504, or the proxy refuses the request without forwarding it. In the
// second case, kube-apiserver may have started an answer, and then broken it off because the
// timeout expired.
func (e *exchange) timedOut() bool {
	return strings.Contains(e.target, "timeout=") && (e.refusedHere() || e.ours.code == http.StatusGatewayTimeout)
}

// refusedHere reports whether the proxy refused the request without forwarding it.
func (e *exchange) refusedHere() bool {
	return e.ours.code >= http.StatusBadRequest && e.ours.header.Get("Audit-Id") == ""
}

// misplaced is for a request with the proxy's continue token. It reports whether the path or the
// accepted types differ from those of the request for the first page. Only the proxy can read the
// token, and it refuses the token with 410. kube-apiserver refuses the path or the types.
func (e *exchange) misplaced() bool {
	return e.other != "" && e.ours.code == http.StatusGone && (e.theirs.code == http.StatusNotAcceptable || e.theirs.code == http.StatusNotFound)
}

// late reports whether kube-apiserver allowed a watch, but was too busy to start it before the
// timeout. This may happen to the test's request or to the proxy's. The answers cannot be compared
// then.
func (e *exchange) late() bool {
	forwarded := e.ours.header.Get("Audit-Id") != ""
	return e.theirs.late() || forwarded && e.ours.late() && e.theirs.code == http.StatusOK
}

func (a *answer) late() bool {
	return a.code == http.StatusOK && len(a.refused) > 0 && bytes.Contains(a.body, []byte("context deadline exceeded"))
}

// early reports whether kube-apiserver rejected the timeout or the path, which it checks before it
// authenticates the caller. The proxy checks credentials and impersonation first. If it refuses the
// caller, it does not check the timeout or the path.
func (e *exchange) early() bool {
	path := e.theirs.code == http.StatusInternalServerError &&
		(e.request.method == http.MethodHead || bytes.Contains(e.theirs.body, []byte("failed to create RequestInfo")))
	return e.refusedHere() && (e.overdue() || path)
}

// overdue reports whether kube-apiserver may have rejected the timeout, as invalid or as expired,
// before it authenticated the caller.
func (e *exchange) overdue() bool {
	return strings.Contains(e.target, "timeout=") && (e.theirs.code == http.StatusBadRequest || e.theirs.code == http.StatusGatewayTimeout)
}

// strange reports whether the proxy has forwarded its own continue token, and kube-apiserver has
// refused it. The proxy forwards a token if it cannot parse the path or the query. Real clients do
// not change the path and the query between pages.
func (e *exchange) strange() bool {
	return e.other != "" && e.ours.code == http.StatusBadRequest && e.ours.header.Get("Audit-Id") != ""
}

// fits judges a request that the proxy and kube-apiserver have received with the proxy's continue
// token. If kube-apiserver has accepted the token, fits does nothing. Otherwise it compares the
// proxy's answer with whole, kube-apiserver's answer to the same request without the token. The
// proxy may refuse the token. The proxy must not answer a caller that kube-apiserver refuses, and
// must not return an object that whole does not have.
func (e *exchange) fits(whole *answer, known map[string]string) {
	if e.theirs.code == http.StatusOK {
		return // kube-apiserver accepts the token
	}
	e.faults = nil
	if e.ours.err != nil || whole.err != nil {
		return
	}
	refuses := e.ours.code == http.StatusBadRequest || e.ours.code == http.StatusGone
	lets := whole.code == http.StatusOK || whole.code == http.StatusNotFound
	if e.ours.code != whole.code && !(lets && refuses) && e.ours.code != e.theirs.code {
		e.fault("the proxy answers %d with a token of its own, kube-apiserver %d without one", e.ours.code, whole.code)
	}
	for uid := range e.ours.uids { // these objects are in the state of the first page
		if known[uid] != "" && !whole.uids[uid] {
			e.fault("THE PROXY SHOWS %s, and kube-apiserver does not", uid)
		}
	}
}

// goOn sends a request for the page after an answer. It sends either the same token to the proxy
// and to kube-apiserver, or to each of them its own token. The request may have another caller than
// the first request, and sometimes another path.
func (w *world) goOn(ctx context.Context, d dice, e *exchange) *exchange {
	q := *e.request
	if d.percent(30) {
		q.caller = pickCaller(d, w.callers)
		q.header = http.Header{"Accept": e.request.header["Accept"]}
		q.caller.credentials(d, q.header)
		q.http1 = q.http1 || q.header.Get("Upgrade") != ""
	}
	bare, moved := e.target, d.percent(15)
	if moved {
		path, query, _ := strings.Cut(bare, "?")
		if r := pick(d, resources...); d.percent(50) {
			path = pathOf(d, r)
		} else {
			path = misspelt(d, path)
		}
		bare = path + "?" + query
	}
	with := func(token string) string {
		return without(bare, "resourceVersion", "resourceVersionMatch", "continue") + "&continue=" + token
	}
	switch d.IntN(4) {
	case 0: // both get kube-apiserver's token, which the proxy forwards
		return w.ask(ctx, &q, with(e.theirs.next), "")
	case 1:
		next := w.ask(ctx, &q, with(e.ours.next), "")
		next.fits(w.server.send(ctx, &q, without(bare, "resourceVersion", "resourceVersionMatch", "continue", "limit")), w.known)
		return next
	default: // each side gets its own token
		next := w.ask(ctx, &q, with(e.theirs.next), with(e.ours.next))
		if moved && len(next.faults) > 0 && next.ours.code == http.StatusOK && next.theirs.code == http.StatusOK {
			// The proxy and kube-apiserver encode keys differently, so under another path they continue at
			// different keys.
			next.faults = nil
			next.leaks(w.known, w.server.send(ctx, &q, listOf(bare)))
		}
		return next
	}
}

// without returns a target without the query parameters of the given names.
func without(target string, names ...string) string {
	path, query, _ := strings.Cut(target, "?")
	var kept []string
	for _, one := range strings.Split(query, "&") {
		if name, _, _ := strings.Cut(one, "="); !slices.Contains(names, name) {
			kept = append(kept, one)
		}
	}
	return path + "?" + strings.Join(kept, "&")
}

// String describes the exchange with all details that help to find the cause of a fault.
func (e *exchange) String() string {
	var out bytes.Buffer
	q := e.request
	fmt.Fprintf(&out, "request %d by %s\n%s %s\n", q.number, q.caller.name, q.method, e.target)
	if e.other != "" && e.other != e.target {
		fmt.Fprintf(&out, "at the proxy: %s\n", e.other)
	}
	if q.http1 {
		fmt.Fprintln(&out, "by HTTP/1.1")
	}
	_ = q.header.Write(&out)
	if q.body != "" {
		fmt.Fprintln(&out, q.body)
	}
	for name, a := range map[string]*answer{"the proxy": e.ours, "kube-apiserver": e.theirs} {
		fmt.Fprintf(&out, "--- %s: %d, error %v, body %v\n", name, a.code, a.err, a.cut)
		_ = a.header.Write(&out)
		fmt.Fprintf(&out, "%q\n", a.body[:min(len(a.body), 1500)])
	}
	return out.String()
}
