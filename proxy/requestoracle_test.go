package proxy

import (
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	kubescheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/weirproject/weir/internal/core/request"
)

// The tests in this file compare package request with kube-apiserver's own parsers.

var requestInfoFactory = apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// compareInfo compares an Info with kube-apiserver's RequestInfo, and returns the RequestInfo.
func compareInfo(t *testing.T, method string, at *url.URL) *apirequest.RequestInfo {
	t.Helper()
	got := request.InfoOf(method, at)
	want, err := requestInfoFactory.NewRequestInfo(&http.Request{Method: method, URL: at})
	if err != nil { // a path that consists only of a prefix
		want = &apirequest.RequestInfo{Path: at.Path, Verb: strings.ToLower(method)}
	}
	name := want.Name
	if scheme.ParameterCodec.DecodeParameters(at.Query(), metav1.SchemeGroupVersion, &metainternalversion.ListOptions{}) != nil && want.Name == "" {
		// kube-apiserver reads no name from a query that it cannot parse. The proxy may read one, which
		// does no harm: its limits do not depend on the name.
		name = got.ReviewName()
	}
	if got.OfResource != want.IsResourceRequest || got.URLPath != want.Path || got.Verb != want.Verb || got.Group != want.APIGroup || got.Version != want.APIVersion ||
		got.Resource != want.Resource || got.Subresource != want.Subresource || got.ReviewNamespace() != want.Namespace || got.ReviewName() != name {
		t.Errorf("%s %.200q?%.200q is read as %+v, and by kube-apiserver as %+v", method, at.Path, at.RawQuery, got, want)
	}
	return want
}

// compareStrict parses a GET with request.Strict, and compares the result with kube-apiserver's
// parsers. It does nothing if Strict does not accept the request.
func compareStrict(t *testing.T, at *url.URL, info *apirequest.RequestInfo) {
	t.Helper()
	rq := strict(at)
	if rq == nil {
		return
	}
	if at.EscapedPath() != rq.Path.String() {
		t.Errorf("%q is read as %q", at.EscapedPath(), &rq.Path)
	}
	if rq.Verb != info.Verb || rq.Group != info.APIGroup || rq.Version != info.APIVersion || rq.Resource != info.Resource || info.Subresource != "" ||
		rq.ReviewNamespace() != info.Namespace || rq.ReviewName() != info.Name || rq.FieldText != info.FieldSelector || rq.LabelText != info.LabelSelector {
		t.Errorf("%q?%q: %+v in place of %+v", at.Path, at.RawQuery, rq, info)
	}
	q, err := url.ParseQuery(at.RawQuery)
	if err != nil {
		t.Errorf("%q is answered", at.RawQuery)
	}
	if rq.Name != "" {
		return
	}
	var want metainternalversion.ListOptions
	if err := scheme.ParameterCodec.DecodeParameters(q, metav1.SchemeGroupVersion, &want); err != nil {
		t.Errorf("%q is answered: %v", at.RawQuery, err)
	}
	initial := want.SendInitialEvents
	if rq.Watch != want.Watch || rq.ResourceVersion != want.ResourceVersion || rq.Limit != want.Limit || rq.AllowBookmarks != want.AllowWatchBookmarks ||
		(rq.Continue != nil) != (want.Continue != "" && !want.Watch) || (rq.Shard != nil) != (want.ShardSelector != "") || initial != nil && rq.WantsInitialEvents() != *initial {
		t.Errorf("%q: %+v in place of %+v", at.RawQuery, rq.Options, want)
	}
}

// TestRandomRequests compares how the proxy and kube-apiserver parse URLs that consist of random
// pieces.
func TestRandomRequests(t *testing.T) {
	segments := []string{
		"api", "apis", "api", "apis", "v1", "v1", "apps", "pods", "pods", "namespaces", "namespaces", "nodes", "watch", "proxy", "status", "finalize", "log", "n", "x", "", ".", "..", "A", "a%2Fb", "%61", "a;b",
	}
	params := []string{
		"watch=1", "watch=0", "watch=False", "watch", "w%61tch=true", "watch=%", "watch=1;", "resourceVersion=0", "resourceVersion=5", "resourceVersion=05", "resourceVersion=",
		"fieldSelector=metadata.name%3Dx", "fieldSelector=metadata.name%3D..", "fieldSelector=a!%3Db,metadata.name%3D%3Dx", "labelSelector=a%3Db", "labelSelector=", "limit=x", "limit=2", "limit=-1",
		"continue=x", "sendInitialEvents=true", "resourceVersionMatch=NotOlderThan", "resourceVersionMatch=Exact", "timeoutSeconds=5", "timeoutSeconds=-5", "timeout=5s",
		"allowWatchBookmarks=true", "shardSelector=x", "pretty=1", "%zz", "a;b", "&", "",
	}
	methods := []string{"GET", "GET", "GET", "GET", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "x"}
	dice := rand.New(rand.NewPCG(3, 4))
	answered := 0
	for range 200_000 {
		path := ""
		for range dice.IntN(9) {
			path += "/" + segments[dice.IntN(len(segments))]
		}
		if dice.IntN(4) > 0 {
			path = []string{"/api/v1", "/api/v1/namespaces/n", "/apis/apps/v1"}[dice.IntN(3)] + path[:min(len(path), 8)]
		}
		at, err := url.ParseRequestURI(path)
		if err != nil {
			continue
		}
		var query []string
		for range dice.IntN(5) {
			query = append(query, params[dice.IntN(len(params))])
		}
		at.RawQuery = strings.Join(query, "&")
		method := methods[dice.IntN(len(methods))]
		info := compareInfo(t, method, at)
		if method == http.MethodGet {
			compareStrict(t, at, info)
			if strict(at) != nil {
				answered++
			}
		}
		if t.Failed() {
			return
		}
	}
	if answered < 1000 {
		t.Errorf("only %d of the requests are strict", answered)
	}
}

// FuzzRequest compares how the proxy and kube-apiserver parse arbitrary URLs.
func FuzzRequest(f *testing.F) {
	for _, seed := range [][2]string{
		{"/api/v1/pods", "watch=1&fieldSelector=metadata.name%3Dx"}, {"/apis/apps/v1/namespaces/n/deployments/d", "resourceVersion=0"},
		{"/api/v1/namespaces/n", "resourceVersion=0&watch=true"}, {"/api/v1/watch/pods", "watch=false"}, {"//api//v1/", "continue=%00;limit=x"},
		{"api///p", "resourceVersion=0"}, {"/api/v1/namespaces/n/namespaces/m", ""}, {"/api/v1/namespaces/n/status", "resourceVersion=0"},
		{"/apis/g/v1/namespaces/n", ""}, {"/api/v1/namespaces/n%2Fpods", ""}, {"/api/v1/pods", "fieldSelector=metadata.name%3Dx,metadata.name%3Dy"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, path, query string) {
		at, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		at.RawQuery = query
		compareStrict(t, at, compareInfo(t, http.MethodGet, at))
	})
}

// TestLongSelectors compares how the proxy and kube-apiserver parse long parameters. In a long
// field selector, the proxy parses only the term with the name.
func TestLongSelectors(t *testing.T) {
	long := strings.Repeat("x", 512)
	for _, query := range []string{
		"watch=" + long, "watch=false" + long, "watch=0&watch=1", "watch=1&fieldSelector=" + long, "watch=1;a",
		"fieldSelector=metadata.name%3Da,b%3D" + long, "fieldSelector=b%3D" + long + ",metadata.name%3D%3Da", "fieldSelector=metadata.name!%3Da,b%3D" + long,
		"fieldSelector=metadata.namespace%3Da,b%3D" + long, "fieldSelector=b%3D" + long + "%5C,metadata.name%3Da", "fieldSelector=b%3D" + long + "%5C%5C,metadata.name%3Da",
		"fieldSelector=metadata.name%3Da%5C,b" + long, "fieldSelector=metadata.name%3Da,metadata.name%3Db,c%3D" + long, "fieldSelector=b%3D" + long + "%5C",
	} {
		at := &url.URL{Path: "/api/v1/pods", RawQuery: query}
		compareStrict(t, at, compareInfo(t, http.MethodGet, at))
	}
}

// TestQueriesAreReadAlike checks that the proxy reads the same parameters from a query as
// kube-apiserver, and answers no query that it cannot parse completely.
func TestQueriesAreReadAlike(t *testing.T) {
	pairs := []string{"watch=1", "watch=0", "watch=%", "watch=1;", "w%61tch=true", "watch", "%=1", "a;b=2", "resourceVersion=0", "fieldSelector=metadata.name%3Dx", "limit=x", "&"}
	for i, first := range pairs {
		for j, second := range pairs {
			at := &url.URL{Path: "/api/v1/namespaces/mine/pods", RawQuery: first + "&" + second}
			compareStrict(t, at, compareInfo(t, http.MethodGet, at))
			if _, err := url.ParseQuery(at.RawQuery); (err != nil || i == j && i < 6) && strict(at) != nil {
				t.Errorf("%s would be answered", at.RawQuery)
			}
		}
	}
}

// TestRandomAccepts compares the proxy's negotiation with kube-apiserver's, for strict Accept
// headers (see request.Accept.IsStrict).
func TestRandomAccepts(t *testing.T) {
	pieces := []string{
		"application/json", "application/json", "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf", "application/yaml", "text/html", "*/*", "application/*", "Application/JSON",
		",", ",", ", ", ";", "; ", ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1", ";as=PartialObjectMetadataList",
		";as=Table;g=meta.k8s.io;v=v1", ";q=0.5", ";q=0", ";q=1", "q=0.9", ";stream=watch", ";stream=x", ";charset=utf-8", ";pretty=1", `"`, "=", " ", ";as=", ";g=x",
	}
	dice := rand.New(rand.NewPCG(5, 6))
	compared := 0
	for range 200_000 {
		text := ""
		for range 1 + dice.IntN(7) {
			text += pieces[dice.IntN(len(pieces))]
		}
		a := request.ParseAccept(http.Header{"Accept": {text}})
		if !a.IsStrict("PartialObjectMetadataList") {
			continue
		}
		got, ok := a.Negotiate(func(mr request.MediaRange) bool { return mr.Wildcards != 1 || mr.Shape == request.MetadataOnly })
		want, wanted := negotiation.NegotiateMediaTypeOptions(text, kubescheme.Codecs.SupportedMediaTypes(), allowed{})
		if ok != wanted {
			t.Fatalf("%q: acceptable %v, for kube-apiserver %v", text, ok, wanted)
		}
		if !ok {
			continue
		}
		compared++
		if (want.Convert != nil) != (got.Shape == request.MetadataOnly) || want.Convert != nil && want.Convert.Version != got.Version || want.Accepted.MediaType != got.ContentType() {
			t.Fatalf("%q: %+v, for kube-apiserver %s %v", text, got, want.Accepted.MediaType, want.Convert)
		}
	}
	if compared < 1000 {
		t.Errorf("only %d headers are strict", compared)
	}
}
