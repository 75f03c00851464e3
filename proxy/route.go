package proxy

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/weirproject/weir/watchcache"
	"github.com/weirproject/weir/wire"
)

var requestInfos = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// read is a request that may be answered from here.
type read struct {
	info   *request.RequestInfo
	gvr    schema.GroupVersionResource
	query  url.Values
	fields fields.Selector
	// fresh: the answer must be current, which nothing held here can be proven to be.
	fresh bool
	// exact is the resourceVersion whose state, or what came after it, is asked for; empty: a state that may be newer.
	exact string
	// ours: it goes on with a page that came from here, or from another replica, and that the upstream knows nothing of.
	ours bool
}

// infoOf is what a request is about. One whose path says nothing that is understood is about no resource.
func infoOf(r *http.Request) *request.RequestInfo {
	info, err := requestInfos.NewRequestInfo(r)
	if err != nil {
		return &request.RequestInfo{Path: r.URL.Path, Verb: strings.ToLower(r.Method)}
	}
	return info
}

// readOf says whether the GET of a URL is one that may be answered from here, as far as the URL alone tells. What is not well-formed
// is not: the upstream says best what is wrong with it.
func readOf(at *url.URL, info *request.RequestInfo) *read {
	q, err := url.ParseQuery(at.RawQuery)
	if err != nil {
		return nil
	}
	selected, err := fields.ParseSelector(q.Get("fieldSelector"))
	if err != nil {
		return nil
	}
	if _, err := labels.Parse(q.Get("labelSelector")); err != nil {
		return nil
	}
	if !info.IsResourceRequest || info.Resource == "" || info.APIVersion == "" || info.Subresource != "" || oldStyle(at.Path, info) {
		return nil
	}
	rd := &read{info: info, query: q, fields: selected, gvr: schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}}
	if info.Verb != "get" && watchcache.IsWatch(q) != (info.Verb == "watch") {
		return nil // what is asked about must be what is answered
	}
	rv := q.Get("resourceVersion")
	if _, err := strconv.ParseUint(rv, 10, 64); err != nil && rv != "" {
		return nil
	}
	switch info.Verb {
	case "get":
		rd.fresh = rv == ""
		return rd.unless(q.Has("watch") || q.Has("limit") || q.Has("continue"))
	case "list":
		return rd.list(rv)
	case "watch":
		return rd.watch(rv)
	}
	return nil
}

func (rd *read) unless(no bool) *read {
	if no {
		return nil
	}
	return rd
}

func (rd *read) list(rv string) *read {
	match := metav1.ResourceVersionMatch(rd.query.Get("resourceVersionMatch"))
	limit := rd.query.Get("limit")
	token := rd.query.Get("continue")
	switch {
	case token != "":
		rd.ours = watchcache.OwnToken(token)
		return rd.unless(!rd.ours)
	case match == metav1.ResourceVersionMatchExact, match == "" && rv != "0" && limit != "" && limit != "0":
		rd.exact = rv
	}
	rd.fresh = rv == ""
	return rd
}

func (rd *read) watch(rv string) *read {
	initial, asked := rd.query.Get("sendInitialEvents"), rd.query.Has("sendInitialEvents")
	sends := asked && initial != "0" && !strings.EqualFold(initial, "false")
	rd.fresh = rv == "" && asked
	if rv != "" && rv != "0" && !sends {
		rd.exact = rv
	}
	return rd
}

// oldStyle says whether a path is one of /api/v1/watch/… and /api/v1/proxy/….
func oldStyle(path string, info *request.RequestInfo) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	at := 2
	if info.APIPrefix == "apis" {
		at = 3
	}
	return len(parts) > at && (parts[at] == "watch" || parts[at] == "proxy")
}

// answers says whether a session can answer the read as kube-apiserver would.
func (s *session) answers(r *http.Request, rd *read) bool {
	if s.kind.Namespaced && rd.info.Verb == "get" && rd.info.Namespace == "" || !s.kind.Namespaced && !rd.clusterWide(s) {
		return false
	}
	accept := strings.Join(r.Header.Values("Accept"), ",")
	if strings.Contains(accept, "as=Table") || s.cache.Accepts(r) != nil {
		return false
	}
	if s.kind.newer && !strings.HasPrefix(strings.TrimSpace(accept), wire.ContentTypeProtobuf) {
		return false
	}
	for _, f := range rd.fields.Requirements() {
		if !s.cache.HasField(f.Field) {
			return false
		}
	}
	return rd.exact == "" || s.cache.Reaches(rd.exact)
}

// clusterWide says whether the path of a read of a resource without namespaces has none either: that of a namespace itself has its name
// for one.
func (rd *read) clusterWide(s *session) bool {
	return rd.info.Namespace == "" || s.kind.Group == "" && s.kind.GroupVersionResource.Resource == "namespaces"
}

// namespace is the one to read in.
func (rd *read) namespace(s *session) string {
	if s.kind.Namespaced {
		return rd.info.Namespace
	}
	return ""
}

// serve answers the read.
func (s *session) serve(w http.ResponseWriter, r *http.Request, rd *read) {
	if rd.info.Verb == "get" {
		s.cache.ServeGet(w, r, rd.namespace(s), rd.info.Name)
		return
	}
	s.cache.ServeList(w, r, rd.namespace(s), "")
}
