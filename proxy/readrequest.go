package proxy

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/weirproject/weir/internal/watchcache"
)

// readRequest is a request that may be answered from here. Its caller's permission is asked for by
// review, and it is answered by target and query, from which review is made: so what is answered is
// what was asked about. Once made it is not changed.
type readRequest struct {
	target
	query  watchcache.Query // of a LIST or WATCH
	review *action
	// consistent: the answer must be current, so that what is held must be proven to be so first.
	consistent bool
	// limit is the limit of a page that costs the upstream no more than a proof; 0: there is none.
	limit int64
	// minVersion is the resourceVersion that the answer must not be older than; 0: none.
	minVersion uint64
	// exactVersion is the resourceVersion whose state, or what came after it, is asked for; empty:
	// a state that may be newer.
	exactVersion string
	// ownToken: it goes on with a page that came from here, or from another replica, and that the
	// upstream knows nothing of.
	ownToken bool
}

// What is answered from here has no more in its selectors than this: deciding them takes time for
// each object. Others go upstream.
const (
	maxSelector          = 8 << 10 // bytes of the text
	maxLabelRequirements = 64
	maxFieldRequirements = 16
)

// selectorsWithinLimits reports whether the selectors of a query are small enough to be read.
func selectorsWithinLimits(q url.Values) bool {
	return len(q.Get("labelSelector")) <= maxSelector && len(q.Get("fieldSelector")) <= maxSelector && len(q.Get("shardSelector")) <= maxSelector &&
		strings.Count(q.Get("fieldSelector"), ",") < maxFieldRequirements
}

// parseRead returns what the GET of a URL asks for if it may be answered from here, as far as the
// URL alone tells, and nil otherwise. What is not well-formed may not be: the upstream says best
// what is wrong with it.
func parseRead(at *url.URL) *readRequest {
	t, ok := targetOf(at)
	if !ok {
		return nil
	}
	q, err := url.ParseQuery(at.RawQuery)
	if err != nil {
		return nil
	}
	if _, err := strconv.ParseUint(q.Get("resourceVersion"), 10, 64); err != nil && q.Get("resourceVersion") != "" {
		return nil
	}
	if t.name != "" {
		return t.get(q)
	}
	return t.listOrWatch(q)
}

// getParams are the parameters of a GET, and listParams those of a LIST or WATCH, that are
// understood here. A timeout does not concern what is answered at once. Any other may ask for
// something that only the upstream knows.
var (
	getParams  = sets.New("resourceVersion", "timeout")
	listParams = getParams.Union(sets.New("watch", "resourceVersionMatch", "limit", "continue", "labelSelector", "fieldSelector",
		"timeoutSeconds", "allowWatchBookmarks", "sendInitialEvents", "shardSelector"))
)

// onlyKnownParams reports whether all parameters are known, and each is there once.
func onlyKnownParams(q url.Values, known sets.Set[string]) bool {
	for name, values := range q {
		if !known.Has(name) || len(values) != 1 {
			return false
		}
	}
	return validTimeout(q)
}

// validTimeout reports whether a timeout is one that kube-apiserver accepts, and that is not over
// before the answer is there.
func validTimeout(q url.Values) bool {
	if !q.Has("timeout") || q.Get("timeout") == "" {
		return true
	}
	d, err := time.ParseDuration(q.Get("timeout"))
	return err == nil && d >= time.Second
}

// get returns the GET of one object.
func (t target) get(q url.Values) *readRequest {
	if !onlyKnownParams(q, getParams) {
		return nil
	}
	review := t.action("get")
	if t.gvr.Group == "" && t.gvr.Resource == "namespaces" {
		review.namespace = t.name // as kube-apiserver asks: a namespace is in itself
	}
	return &readRequest{target: t, review: review, consistent: q.Get("resourceVersion") == "", minVersion: parseVersion(q.Get("resourceVersion"))}
}

// action returns what is done to the target, without selectors.
func (t target) action(verb string) *action {
	return &action{
		verb: verb, group: t.gvr.Group, version: t.gvr.Version, resource: t.gvr.Resource, namespace: t.namespace, name: t.name,
	}
}

// listOrWatch returns a LIST or a WATCH.
func (t target) listOrWatch(q url.Values) *readRequest {
	if !onlyKnownParams(q, listParams) || !selectorsWithinLimits(q) {
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
		rd.watch(q)
		return rd
	}
	return rd.list(q)
}

// selectedName returns the name that a field selector requires, as kube-apiserver puts it into its
// review; empty: none.
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

// list fills in what is asked of a LIST; nil: nothing that could be answered.
func (rd *readRequest) list(q url.Values) *readRequest {
	rv, limit, token := q.Get("resourceVersion"), q.Get("limit"), q.Get("continue")
	match := metav1.ResourceVersionMatch(q.Get("resourceVersionMatch"))
	switch {
	case token != "":
		if rd.ownToken = watchcache.IsContinueToken(token); !rd.ownToken {
			return nil
		}
		return rd
	case match == metav1.ResourceVersionMatchExact, match == "" && rv != "0" && limit != "" && limit != "0":
		rd.exactVersion = rv
	}
	rd.consistent, rd.minVersion = rv == "", parseVersion(rv)
	rd.limit, _ = strconv.ParseInt(limit, 10, 64)
	return rd
}

// watch fills in what is asked of a WATCH.
func (rd *readRequest) watch(q url.Values) {
	rv := q.Get("resourceVersion")
	initial, asked := q.Get("sendInitialEvents"), q.Has("sendInitialEvents")
	sends := asked && initial != "0" && !strings.EqualFold(initial, "false")
	rd.consistent = rv == "" && asked
	switch {
	case sends:
		rd.minVersion = parseVersion(rv)
	case rv != "0":
		rd.exactVersion = rv
	}
}
