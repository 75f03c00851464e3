package api

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	apirequest "github.com/weirproject/weir/internal/core/request"
)

// Ask is a set of kinds of requests.
type Ask uint16

const (
	AskVersion Ask = 1 << iota
	AskList        // LIST without limit and without resourceVersion
	AskListAny     // LIST without limit but with resourceVersion
	AskPage        // LIST of the first page
	AskProbe       // LIST with limit=1
	AskMore        // LIST with a continue token
	AskWatch       // WATCH from a resourceVersion
	AskInitial     // WATCH with sendInitialEvents
	AskOther       // any other request; the server responds with 404

	AskLists   = AskList | AskListAny | AskPage | AskProbe | AskMore
	AskWatches = AskWatch | AskInitial
	AskAll     = AskOther<<1 - 1
)

var askNames = [...]string{"VERSION", "LIST", "LIST-ANY", "PAGE", "PROBE", "MORE", "WATCH", "WATCH-INITIAL", "OTHER"}

func (a Ask) String() string {
	switch a {
	case AskAll:
		return "everything"
	case AskLists:
		return "LISTS"
	case AskWatches:
		return "WATCHES"
	}
	var names []string
	for i, n := range askNames {
		if a&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, "+")
}

// request is a parsed request.
type request struct {
	*http.Request
	client    *Client
	plan      *plan
	ask       Ask
	query     url.Values
	namespace string
	labels    labels.Selector
	fields    fields.Selector
	rv, match string
	limit     int
	token     string
	initial   *bool
	bookmarks bool
	timeout   time.Duration
	protobuf  bool
	partial   bool
	gzip      bool
}

// read parses a request. The failure is not nil if the server must refuse the request. If old is
// true, read ignores the parameters that an old server does not support.
func (k *Kind) read(r *http.Request, old bool) (*request, *failure) {
	q := r.URL.Query()
	req := &request{Request: r, query: q, rv: q.Get("resourceVersion"), token: q.Get("continue")}
	accept := r.Header.Get("Accept")
	req.partial = strings.Contains(accept, "as=PartialObjectMetadata")
	req.protobuf = (k.Protobuf || req.partial) && strings.Contains(accept, "protobuf")
	req.gzip = strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
	if req.ask = k.path(req); req.ask != AskList {
		return req, nil
	}
	var err error
	if req.labels, err = labels.Parse(q.Get("labelSelector")); err != nil {
		return req, badRequest(err.Error())
	}
	if req.fields, err = fields.ParseSelector(q.Get("fieldSelector")); err != nil {
		return req, badRequest(err.Error())
	}
	for _, f := range req.fields.Requirements() {
		if f.Field != "metadata.name" && f.Field != "metadata.namespace" {
			return req, badRequest("field label not supported: " + f.Field)
		}
	}
	req.bookmarks = q.Get("allowWatchBookmarks") == "true"
	if !old {
		req.match = q.Get("resourceVersionMatch")
		if s := q.Get("sendInitialEvents"); s != "" {
			req.initial = new(s == "true")
		}
	}
	if n, _ := strconv.Atoi(q.Get("timeoutSeconds")); n > 0 {
		req.timeout = time.Duration(n) * time.Second
	}
	req.limit, _ = strconv.Atoi(q.Get("limit"))
	req.ask = req.classify()
	return req, nil
}

// path returns the kind of request that the URL names, and sets the namespace. For every LIST or
// WATCH it returns AskList; the method classify later determines the exact kind.
func (k *Kind) path(req *request) Ask {
	info := apirequest.InfoOf(req.Method, req.URL)
	req.namespace = info.Namespace
	switch {
	case req.URL.Path == "/version":
		return AskVersion
	case info.GVR() == k.GroupVersionResource && (info.Verb == "list" || info.Verb == "watch"):
		return AskList
	}
	return AskOther
}

func (r *request) classify() Ask {
	q := r.query
	switch {
	case q.Get("watch") == "true" || q.Get("watch") == "1":
		if q.Get("sendInitialEvents") == "true" {
			return AskInitial
		}
		return AskWatch
	case r.token != "":
		return AskMore
	case r.limit == 1:
		return AskProbe
	case r.limit > 0:
		return AskPage
	case r.rv != "":
		return AskListAny
	}
	return AskList
}

// matches reports whether a version is in the request's namespace and matches its selectors. v may
// be nil.
func (r *request) matches(v *Version) bool {
	return v != nil && (r.namespace == "" || r.namespace == v.Key.Namespace) && r.labels.Matches(labels.Set(v.Labels)) &&
		r.fields.Matches(fields.Set{"metadata.name": v.Key.Name, "metadata.namespace": v.Key.Namespace})
}
