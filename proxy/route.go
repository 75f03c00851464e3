package proxy

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/weirproject/weir/internal/watchcache"
	"github.com/weirproject/weir/internal/wire"
)

var requestInfos = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// read is a request that may be answered from here. Its caller's permission is asked for by review, and it is answered by target and
// query, from which review is made: so what is answered is what was asked about. Once made it is not changed.
type read struct {
	target
	query  watchcache.Query // of a LIST or WATCH
	review *action
	// fresh: the answer must be current, so that what is held must be proven to be so first.
	fresh bool
	// few is the limit of a page that costs the upstream no more than a proof; 0: there is none.
	few int64
	// least is the resourceVersion that the answer must not be older than; 0: none.
	least uint64
	// exact is the resourceVersion whose state, or what came after it, is asked for; empty: a state that may be newer.
	exact string
	// ours: it goes on with a page that came from here, or from another replica, and that the upstream knows nothing of.
	ours bool
}

// maxInfo bounds the field selector of which a request's info has the name, in bytes.
const maxInfo = 256

// infoOf returns what a request is about. One whose path says nothing that is understood is about no resource. Of the query it reads no more
// than it needs: the library reads every selector.
func infoOf(method string, at *url.URL) *request.RequestInfo {
	bare := &url.URL{Path: at.Path, RawPath: at.RawPath}
	if at.RawQuery != "" {
		all, few := at.Query(), url.Values{}
		if all.Has("watch") {
			few.Set("watch", all.Get("watch"))
		}
		if fields := all.Get("fieldSelector"); len(fields) <= maxInfo {
			few.Set("fieldSelector", fields)
		}
		bare.RawQuery = few.Encode()
	}
	info, err := requestInfos.NewRequestInfo(&http.Request{Method: method, URL: bare})
	if err != nil {
		return &request.RequestInfo{Path: at.Path, Verb: strings.ToLower(method)}
	}
	return info
}

// What is answered from here has no more in its selectors than this: deciding them takes time for each object. Others go upstream.
const (
	maxSelector          = 8 << 10 // bytes of the text
	maxLabelRequirements = 64
	maxFieldRequirements = 16
)

// modest reports whether the selectors of a query are small enough to be read.
func modest(q url.Values) bool {
	return len(q.Get("labelSelector")) <= maxSelector && len(q.Get("fieldSelector")) <= maxSelector && len(q.Get("shardSelector")) <= maxSelector &&
		strings.Count(q.Get("fieldSelector"), ",") < maxFieldRequirements
}

// readOf returns what the GET of a URL asks for if it may be answered from here, as far as the URL alone tells, and nil otherwise. What is
// not well-formed may not be: the upstream says best what is wrong with it.
func readOf(at *url.URL) *read {
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
	return t.collection(q)
}

// getParams are the parameters of a GET, and listParams those of a LIST or WATCH, that are understood here. A timeout does not concern
// what is answered at once. Any other may ask for something that only the upstream knows.
var (
	getParams  = sets.New("resourceVersion", "timeout")
	listParams = getParams.Union(sets.New("watch", "resourceVersionMatch", "limit", "continue", "labelSelector", "fieldSelector",
		"timeoutSeconds", "allowWatchBookmarks", "sendInitialEvents", "shardSelector"))
)

// understood reports whether all parameters are known, and each is there once.
func understood(q url.Values, known sets.Set[string]) bool {
	for name, values := range q {
		if !known.Has(name) || len(values) != 1 {
			return false
		}
	}
	return usualTimeout(q)
}

// usualTimeout reports whether a timeout is one that kube-apiserver accepts, and that is not over before the answer is there.
func usualTimeout(q url.Values) bool {
	if !q.Has("timeout") || q.Get("timeout") == "" {
		return true
	}
	d, err := time.ParseDuration(q.Get("timeout"))
	return err == nil && d >= time.Second
}

// get returns the GET of one object.
func (t target) get(q url.Values) *read {
	if !understood(q, getParams) {
		return nil
	}
	review := t.action("get")
	if t.gvr.Group == "" && t.gvr.Resource == "namespaces" {
		review.namespace = t.name // as kube-apiserver asks: a namespace is in itself
	}
	return &read{target: t, review: review, fresh: q.Get("resourceVersion") == "", least: parseVersion(q.Get("resourceVersion"))}
}

// action returns what is done to the target, without selectors.
func (t target) action(verb string) *action {
	return &action{
		verb: verb, group: t.gvr.Group, version: t.gvr.Version, resource: t.gvr.Resource, namespace: t.namespace, name: t.name,
	}
}

// collection returns a LIST or a WATCH.
func (t target) collection(q url.Values) *read {
	if !understood(q, listParams) || !modest(q) {
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
	rd := &read{target: t, query: query, review: t.action(verb)}
	rd.review.fields, rd.review.fieldText = query.Fields(), q.Get("fieldSelector")
	rd.review.labels, rd.review.labelText = query.Labels(), q.Get("labelSelector")
	rd.review.name = selectedName(query.Fields())
	if query.Watch() {
		rd.watch(q)
		return rd
	}
	return rd.list(q)
}

// selectedName returns the name that a field selector requires, as kube-apiserver puts it into its review; empty: none.
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
func (rd *read) list(q url.Values) *read {
	rv, limit, token := q.Get("resourceVersion"), q.Get("limit"), q.Get("continue")
	match := metav1.ResourceVersionMatch(q.Get("resourceVersionMatch"))
	switch {
	case token != "":
		if rd.ours = watchcache.OwnToken(token); !rd.ours {
			return nil
		}
		return rd
	case match == metav1.ResourceVersionMatchExact, match == "" && rv != "0" && limit != "" && limit != "0":
		rd.exact = rv
	}
	rd.fresh, rd.least = rv == "", parseVersion(rv)
	rd.few, _ = strconv.ParseInt(limit, 10, 64)
	return rd
}

// watch fills in what is asked of a WATCH.
func (rd *read) watch(q url.Values) {
	rv := q.Get("resourceVersion")
	initial, asked := q.Get("sendInitialEvents"), q.Has("sendInitialEvents")
	sends := asked && initial != "0" && !strings.EqualFold(initial, "false")
	rd.fresh = rv == "" && asked
	switch {
	case sends:
		rd.least = parseVersion(rv)
	case rv != "0":
		rd.exact = rv
	}
}

// answers says whether a session can answer the read as kube-apiserver would.
func (s *session) answers(r *http.Request, rd *read) bool {
	form := "PartialObjectMetadata"
	if rd.review.verb == "list" {
		form = "PartialObjectMetadataList"
	}
	if !s.has(rd.target) || !usualAccept(r.Header) || !suits(r.Header, form) || watchcache.WantsTable(r.Header) || s.cache.Accepts(r) != nil {
		return false
	}
	accept := strings.TrimSpace(strings.Join(r.Header.Values("Accept"), ","))
	if s.kind.newer && !strings.HasPrefix(accept, wire.ContentTypeProtobuf) {
		return false
	}
	if rd.review.fields != nil {
		for _, f := range rd.review.fields.Requirements() {
			if !s.cache.HasField(f.Field) || f.Field == "metadata.namespace" && !s.kind.Namespaced {
				return false
			}
		}
	}
	return rd.exact == "" || s.cache.Reaches(rd.exact)
}

// has reports whether kube-apiserver serves the target of a resource of this scope.
func (s *session) has(t target) bool {
	if s.kind.Namespaced {
		return t.name == "" || t.namespace != ""
	}
	return t.namespace == ""
}

// gone reports whether the read goes on from a state that may never have been: from before the upstream went back, when past was the newest,
// and not reached again. Who waits for it to come would miss what happens until then.
func (s *session) gone(rd *read, past uint64) bool {
	from := parseVersion(rd.exact)
	return from <= past && from > s.feed.version()
}

// patient is how long a read waits for the session to come to where it must be. What the upstream told another replica comes within it.
// A resource in which nothing changes may take until the next bookmark: of a large one it is proven that nothing has, of a small one the
// upstream tells as quickly.
const patient = time.Second

// reaches waits until the session has what the read must not be older than, and reports whether it has.
func (s *session) reaches(ctx context.Context, rd *read) bool {
	if rd.least <= s.feed.version() {
		return true
	}
	if s.store.Len() >= worthProof {
		return s.prover.reaches(ctx, rd.least)
	}
	ctx, cancel := context.WithTimeout(ctx, patient)
	defer cancel()
	return s.feed.Wait(ctx, rd.least) == nil
}

// serve answers the read.
func (s *session) serve(w http.ResponseWriter, r *http.Request, rd *read) {
	if rd.name != "" {
		s.cache.ServeGet(w, r, rd.namespace, rd.name)
		return
	}
	s.cache.ServeQuery(w, r, rd.query, rd.namespace, rd.review.name)
}
