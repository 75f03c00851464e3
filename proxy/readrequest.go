package proxy

import (
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/weirproject/weir/internal/resourceversion"
	"github.com/weirproject/weir/internal/watchcache"
)

// readRequest is a read that the proxy may answer. It is authorized by review and answered by
// target and query, from which review is made, so what is answered is what was authorized. It is
// immutable.
type readRequest struct {
	target
	query  watchcache.Query // of a LIST or WATCH
	review *action
	// consistent means that the answer must be current, so the session must be proven to be.
	consistent bool
	// limit is the limit of the page; 0: none.
	limit int64
	// minVersion is the oldest resourceVersion that may answer; 0: any.
	minVersion uint64
	// exactVersion is the resourceVersion that the read starts from, or wants exactly; empty: none.
	exactVersion string
	// ownToken means that the continue token is of this proxy or another replica, unknown to the
	// upstream.
	ownToken bool
}

// sendsState reports whether the answer is the state of many objects: of a LIST, but for a small
// page or one that goes on, or of a WATCH that does not resume.
func (rd *readRequest) sendsState() bool {
	return rd.name == "" && rd.exactVersion == "" && !rd.ownToken && !rd.smallPage()
}

// smallPage reports whether a LIST asks for no more objects than a proof of freshness costs.
func (rd *readRequest) smallPage() bool { return rd.limit > 0 && rd.limit < minProofObjects }

// Requests with larger selectors are forwarded, because each object costs time for them.
const (
	maxSelector          = 8 << 10 // bytes of a selector's text
	maxLabelRequirements = 64
	maxFieldRequirements = 16
)

// maxTimeoutSeconds is the longest timeout that fits into a duration.
const maxTimeoutSeconds = math.MaxInt64 / int64(time.Second)

// selectorsWithinLimits reports whether the selectors of a query are small enough to be parsed.
func selectorsWithinLimits(q url.Values) bool {
	return len(q.Get("labelSelector")) <= maxSelector && len(q.Get("fieldSelector")) <= maxSelector && len(q.Get("shardSelector")) <= maxSelector &&
		strings.Count(q.Get("fieldSelector"), ",") < maxFieldRequirements
}

// parseRead parses the URL of a GET request. It returns nil if the proxy may not answer it.
// Malformed requests are forwarded, so that the upstream says what is wrong.
func parseRead(at *url.URL) *readRequest {
	t, ok := targetOf(at)
	if !ok {
		return nil
	}
	q, err := url.ParseQuery(at.RawQuery)
	if err != nil {
		return nil
	}
	if _, err := resourceversion.Parse(q.Get("resourceVersion")); err != nil && q.Get("resourceVersion") != "" {
		return nil
	}
	if t.name != "" {
		return t.get(q)
	}
	return t.listOrWatch(q)
}

// getParams and listParams are the supported parameters of a GET, and of a LIST or WATCH. A timeout
// does not matter to an answer that comes at once. Any other parameter may need the upstream.
var (
	getParams  = sets.New("resourceVersion", "timeout")
	listParams = getParams.Union(sets.New("watch", "resourceVersionMatch", "limit", "continue", "labelSelector", "fieldSelector",
		"timeoutSeconds", "allowWatchBookmarks", "sendInitialEvents", "shardSelector"))
)

// onlySupportedParams reports whether all parameters are supported, and none is repeated.
func onlySupportedParams(q url.Values, supported sets.Set[string]) bool {
	for name, values := range q {
		if !supported.Has(name) || len(values) != 1 {
			return false
		}
	}
	return validTimeout(q)
}

// validTimeout reports whether kube-apiserver accepts the timeout, and it leaves time to answer.
func validTimeout(q url.Values) bool {
	if !q.Has("timeout") || q.Get("timeout") == "" {
		return true
	}
	d, err := time.ParseDuration(q.Get("timeout"))
	return err == nil && d >= time.Second
}

// get parses a GET of one object.
func (t target) get(q url.Values) *readRequest {
	if !onlySupportedParams(q, getParams) {
		return nil
	}
	review := t.action("get")
	if t.gvr.Group == "" && t.gvr.Resource == "namespaces" {
		review.namespace = t.name // as in kube-apiserver: a namespace is in itself
	}
	return &readRequest{target: t, review: review, consistent: q.Get("resourceVersion") == "", minVersion: resourceversion.Number(q.Get("resourceVersion"))}
}

// action returns the action on the target, without selectors.
func (t target) action(verb string) *action {
	return &action{
		verb: verb, group: t.gvr.Group, version: t.gvr.Version, resource: t.gvr.Resource, namespace: t.namespace, name: t.name,
	}
}

// listOrWatch parses a LIST or a WATCH.
func (t target) listOrWatch(q url.Values) *readRequest {
	if !onlySupportedParams(q, listParams) || !selectorsWithinLimits(q) {
		return nil
	}
	query, err := watchcache.ParseQuery(q)
	if err != nil {
		return nil
	}
	if l := query.Labels(); l != nil {
		if requirements, _ := l.Requirements(); len(requirements) > maxLabelRequirements {
			return nil
		}
	}
	verb := "list"
	if query.Watch() {
		verb = "watch"
	}
	rd := &readRequest{target: t, query: query, review: t.action(verb)}
	rd.review.fields, rd.review.fieldText = query.Fields(), q.Get("fieldSelector")
	rd.review.labels, rd.review.labelText = query.Labels(), q.Get("labelSelector")
	rd.review.name = selectedName(query.Fields())
	if query.Watch() {
		return rd.watch(q)
	}
	return rd.list(q)
}

// selectedName returns the name that a field selector requires, as kube-apiserver puts it into its
// review, or "".
func selectedName(s fields.Selector) string {
	if s == nil {
		return ""
	}
	name, ok := s.RequiresExactMatch("metadata.name")
	if !ok || len(content.IsPathSegmentName(name)) > 0 {
		return ""
	}
	return name
}

// list sets the fields of a LIST. It returns nil if the proxy cannot answer it.
func (rd *readRequest) list(q url.Values) *readRequest {
	rv, limit, token := q.Get("resourceVersion"), q.Get("limit"), q.Get("continue")
	match := metav1.ResourceVersionMatch(q.Get("resourceVersionMatch"))
	switch {
	case token != "":
		if rd.minVersion, rd.ownToken = watchcache.ContinueVersion(token); !rd.ownToken {
			return nil
		}
		return rd
	case match == metav1.ResourceVersionMatchExact, match == "" && rv != "0" && limit != "" && limit != "0":
		rd.exactVersion = rv
	}
	rd.consistent, rd.minVersion = rv == "", resourceversion.Number(rv)
	rd.limit, _ = strconv.ParseInt(limit, 10, 64)
	return rd
}

// watch sets the fields of a WATCH. It returns nil for a timeoutSeconds that is negative, or
// becomes so in kube-apiserver, which then ends the WATCH at once.
func (rd *readRequest) watch(q url.Values) *readRequest {
	rv := q.Get("resourceVersion")
	if seconds, _ := strconv.ParseInt(q.Get("timeoutSeconds"), 10, 64); seconds < 0 || seconds > maxTimeoutSeconds {
		return nil
	}
	rd.consistent = rv == "" // from kube-apiserver 1.34 on also without sendInitialEvents
	switch {
	case sendsInitialEvents(q):
		rd.minVersion = resourceversion.Number(rv)
	case rv != "0":
		rd.exactVersion = rv
	}
	return rd
}

// sendsInitialEvents reports whether kube-apiserver sends a WATCH with these parameters the state
// first.
func sendsInitialEvents(q url.Values) bool {
	initial := q.Get("sendInitialEvents")
	return q.Has("sendInitialEvents") && initial != "0" && !strings.EqualFold(initial, "false")
}
