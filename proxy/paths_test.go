package proxy

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/request"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/testing/check"
)

// startPaths starts a proxy that caches namespaced and cluster-scoped resources, and creates
// objects in two namespaces.
func startPaths(t *testing.T) (*fakeUpstream, *testProxy) {
	t.Helper()
	u := startUpstream(t, apiserver.Options{})
	ctx, client := t.Context(), u.writer()
	for _, name := range []string{"mine", "yours"} {
		must(t)(client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
		p := pod("of-" + name)
		p.Namespace = name
		must(t)(client.CoreV1().Pods(name).Create(ctx, p, metav1.CreateOptions{}))
	}
	must(t)(client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}, metav1.CreateOptions{}))
	tp := startProxy(t, u, Options{Resources: []string{"pods", "namespaces", "nodes"}, TrustCache: []string{"pods", "namespaces", "nodes"}})
	tp.ready()
	u.set(func() { u.silent = true })
	return u, tp
}

// TestOtherPaths checks paths that kube-apiserver does not serve, or interprets differently from
// the similar paths that the proxy answers. The proxy forwards each of them, even if the caller may
// do everything.
func TestOtherPaths(t *testing.T) {
	u, tp := startPaths(t)
	const watch = "&watch=1&timeoutSeconds=1"
	for _, path := range []string{
		// A cluster-scoped resource within a namespace: kube-apiserver reviews the namespace, but answers
		// for the whole cluster.
		"/api/v1/namespaces/mine/namespaces", "/api/v1/namespaces/mine/namespaces/yours", "/api/v1/namespaces/mine/namespaces/mine",
		"/api/v1/namespaces/mine/nodes", "/api/v1/namespaces/mine/nodes/node", "/api/v1/namespaces/namespaces/namespaces",
		// A namespaced resource without a namespace, by name.
		"/api/v1/pods/of-mine", "/api/v1/pods/mine/of-mine",
		// Subresources, and paths that look like subresources.
		"/api/v1/namespaces/mine/status", "/api/v1/namespaces/mine/finalize", "/api/v1/namespaces/mine/pods/of-mine/status",
		"/api/v1/nodes/node/status", "/api/v1/namespaces/mine/pods/of-mine/log", "/api/v1/namespaces/mine/pods/of-mine/pods",
		"/api/v1/namespaces/mine/status/pods",
		// The deprecated paths of WATCHes and proxies.
		"/api/v1/watch/pods", "/api/v1/watch/namespaces", "/api/v1/watch/namespaces/mine/pods", "/api/v1/watch/namespaces/mine",
		"/api/v1/proxy/nodes/node", "/api/v1/proxy/namespaces/mine/pods", "/api/v1/watch", "/api/v1/proxy",
		"/api/v1/namespaces/mine/watch/pods",
		// Extra and missing slashes.
		"//api/v1/pods", "/api//v1/pods", "/api/v1//pods", "/api/v1/pods/", "/api/v1/namespaces//pods", "/api/v1/namespaces/mine//pods",
		"/api/v1/namespaces/mine/pods/", "/api/v1/namespaces/mine/pods//", "/api/v1/namespaces/mine/pods//of-mine", "/api/v1/namespaces/",
		"/api/v1/namespaces/mine/", "///api/v1/pods",
		// Encodings of slashes, and of characters that need no encoding.
		"/api/v1/namespaces%2Fmine/pods", "/api/v1/namespaces/mine%2Fpods", "/api/v1/namespaces/mine/pods%2Fof-mine", "/api/v1%2Fpods",
		"/api/v1/namespaces/mine%2fpods%2fof-mine", "/%61pi/v1/pods", "/api/v1/%70ods", "/api/v1/namespaces/min%65/pods",
		"/api/v1/namespaces/mine%2F..%2Fyours/pods", "/api/v1/namespaces/mine%00/pods", "/api/v1/nodes/nod%65",
		// Dot segments.
		"/api/v1/namespaces/mine/../yours/pods", "/api/v1/./pods", "/api/v1/namespaces/./pods", "/api/v1/namespaces/../pods",
		"/api/v1/namespaces/mine/pods/..", "/api/v1/namespaces/mine/pods/.", "/api/v1/namespaces/mine/pods/../../yours/pods",
		// Other versions, groups and spellings.
		"/api/v2/pods", "/api/V1/pods", "/apis/v1/pods", "/apis//v1/pods", "/apis/core/v1/pods", "/apis/apps/v1/pods", "/API/v1/pods",
		"/api/v1/Pods", "/api/v1/pod", "/api/v1/po", "/api/v1/pods.v1", "/api/v1/namespaces/Mine/pods", "/api/v1/Namespaces/mine/pods",
		"/apis/apps/v1/namespaces/mine", "/apis/apps/v1/namespaces",
		// Names that no object can have, and names that parsers may read differently.
		"/api/v1/nodes/a;b", "/api/v1/nodes/a,b", "/api/v1/nodes/a%25b", "/api/v1/nodes/%20", "/api/v1/namespaces/mine;x=y/pods",
		"/api/v1/namespaces/mine/pods/of-mine;x",
	} {
		for _, query := range []string{"?resourceVersion=0", "?resourceVersion=0" + watch, "", "?resourceVersion=0&limit=1"} {
			u.forwarded("")
			code, body := tp.getExactly("jane", path+query)
			if len(u.forwarded("")) != 1 {
				t.Errorf("%s is answered %d by the proxy: %.200s", path+query, code, body)
			}
		}
	}
}

// TestQueryIsForwarded checks that the proxy forwards every query unchanged, even an invalid one.
// This includes requests that kube-apiserver itself proxies to other servers.
func TestQueryIsForwarded(t *testing.T) {
	u, tp := startPaths(t)
	for _, path := range []string{
		"/api/v1/namespaces/mine/services/web/proxy/search", "/api/v1/namespaces/mine/pods/of-mine/proxy/", "/apis/example.com/v1/things", "/api/v1/pods",
	} {
		for _, query := range []string{"q=100%&a=1;b=2&z=1&b=2", "b=2&a=1", "%zz", "a;b", "a=%20+&&=&x", "watch=1;&resourceVersion=0"} {
			u.forwarded("")
			target := path + "?" + query
			tp.getExactly("jane", target)
			if got := u.forwarded(""); len(got) != 1 || got[0].uri != target {
				t.Errorf("%s came as %+v", target, got)
			}
		}
	}
}

// TestManyParameters checks that the proxy refuses a query with more than 10,000 parameters. The
// proxy would parse none of them, but an older kube-apiserver would parse all.
func TestManyParameters(t *testing.T) {
	u, tp := startPaths(t)
	for n, want := range map[int]int{9_999: http.StatusNotFound, 10_000: http.StatusRequestURITooLong} {
		query := strings.Repeat("&", n) + "watch=1"
		u.forwarded("")
		code, body := tp.getExactly("jane", "/api/v1/namespaces/mine/secrets?"+query)
		if code != want || (len(u.forwarded("")) > 0) != (want == http.StatusNotFound) {
			t.Errorf("%d: %d %.200s", n, code, body)
		}
	}
	watch := request.InfoOf(http.MethodGet, &url.URL{Path: "/api/v1/pods", RawQuery: strings.Repeat("&", 9_999) + "watch=1"})
	check.Equal(t, watch.Verb, "watch", "the last of as many as may be is not read")
}

// TestOtherQueries checks queries and Accept headers that the proxy cannot answer as kube-apiserver
// would. The proxy forwards them, even if the caller may do everything.
func TestOtherQueries(t *testing.T) {
	u, tp := startPaths(t)
	for _, query := range []string{
		"shardSelector=shardRange(object.metadata.uid,'0x0','0x8')", "shardSelector=x", "shardSelector=%20", "pretty=true", "unheardOf=1",
		"shardSelector=o.shardRange(object.metadata.uid,'0x0000000000000000','0x8000000000000000')", "shardSelector=&shardSelector=",
		"fieldSelector=metadata.name=a&fieldSelector=metadata.name=b", "labelSelector=a&labelSelector=b", "watch=0&watch=1",
		"resourceVersion=0&resourceVersion=1", "limit=many", "watch=1&limit=many", "timeoutSeconds=x", "sendInitialEvents=1;watch=1", "%zz",
		"labelSelector=%zz", "allowWatchBookmarks=%", "fieldSelector=a", "resourceVersionMatch=Guess", "resourceVersion=-1",
		"sendInitialEvents=true&timeoutSeconds=1", "resourceVersionMatch=Exact", "resourceVersion=0&timeout=junk", "resourceVersion=0&timeout=1ns",
		"resourceVersion=0&watch=1&timeoutSeconds=-1", "resourceVersion=0&watch=1&timeoutSeconds=9223372037",
	} {
		u.forwarded("")
		code, body := tp.getExactly("jane", "/api/v1/pods?"+query)
		if len(u.forwarded("")) != 1 {
			t.Errorf("%s is answered %d by the proxy: %.200s", query, code, body)
		}
	}
	for _, query := range []string{"resourceVersion=0&resourceVersion=0", "watch=1", "limit=1", "labelSelector=a", "pretty=1", "resourceVersion=x"} {
		u.forwarded("")
		code, body := tp.getExactly("jane", "/api/v1/nodes/node?"+query)
		if len(u.forwarded("")) != 1 {
			t.Errorf("GET with %s is answered %d by the proxy: %.200s", query, code, body)
		}
	}
	for _, accept := range []string{
		`application/json;as="Table";v=v1;g=meta.k8s.io`, `application/json;as=Table;v=v1;g=meta.k8s.io`,
		`application/json; AS="Table" ;g=meta.k8s.io; v=v1`, `application/json,application/json;as="Table";v=v1;g=meta.k8s.io;q=0.5`,
		`application/json;as="\Table";v="v1";g="meta.k8s.io"`,
	} {
		u.forwarded("")
		code, body := tp.get("jane", "/api/v1/pods?resourceVersion=0", "Accept", accept)
		if len(u.forwarded("")) != 1 {
			t.Errorf("%s is answered %d by the proxy: %.200s", accept, code, body)
		}
	}
}

// TestReviewedIsAnswered checks that the objects in an answer are within the scope of the review.
// The review must have the same attributes as kube-apiserver's.
func TestReviewedIsAnswered(t *testing.T) {
	t.Parallel()
	u, tp := startPaths(t)
	type attrs = authorizationv1.ResourceAttributes
	tests := []struct {
		path   string
		review attrs
		shows  string // names of the objects in the answer
	}{
		{"/api/v1/pods?resourceVersion=0", attrs{Verb: "list", Resource: "pods"}, "of-mine of-yours"},
		{"/api/v1/namespaces/mine/pods?resourceVersion=0", attrs{Verb: "list", Resource: "pods", Namespace: "mine"}, "of-mine"},
		{"/api/v1/namespaces/mine/pods/of-mine?resourceVersion=0", attrs{Verb: "get", Resource: "pods", Namespace: "mine", Name: "of-mine"}, "of-mine"},
		{"/api/v1/namespaces/mine/pods/of-yours?resourceVersion=0", attrs{Verb: "get", Resource: "pods", Namespace: "mine", Name: "of-yours"}, ""},
		{"/api/v1/namespaces/none/pods?resourceVersion=0", attrs{Verb: "list", Resource: "pods", Namespace: "none"}, ""},
		// kube-apiserver reviews a read of a namespace within that namespace.
		{"/api/v1/namespaces/mine?resourceVersion=0", attrs{Verb: "get", Resource: "namespaces", Namespace: "mine", Name: "mine"}, "mine"},
		{"/api/v1/nodes/node?resourceVersion=0", attrs{Verb: "get", Resource: "nodes", Name: "node"}, "node"},
		{"/api/v1/nodes?resourceVersion=0&fieldSelector=metadata.name%3Dnode", attrs{Verb: "list", Resource: "nodes", Name: "node"}, "node"},
		{"/api/v1/pods?resourceVersion=0&fieldSelector=metadata.name%3Dof-yours", attrs{Verb: "list", Resource: "pods", Name: "of-yours"}, "of-yours"},
		{"/api/v1/namespaces/mine/pods?resourceVersion=0&fieldSelector=metadata.name%3Dof-yours", attrs{Verb: "list", Resource: "pods", Namespace: "mine", Name: "of-yours"}, ""},
		{"/api/v1/namespaces/mine/pods?resourceVersion=0&fieldSelector=metadata.namespace%3Dyours", attrs{Verb: "list", Resource: "pods", Namespace: "mine"}, ""},
		{"/api/v1/pods?resourceVersion=0&fieldSelector=metadata.namespace%3Dmine", attrs{Verb: "list", Resource: "pods"}, "of-mine"},
		{"/api/v1/pods?resourceVersion=0&fieldSelector=metadata.name%3Dof-mine,metadata.name%3Dof-yours", attrs{Verb: "list", Resource: "pods", Name: "of-mine"}, ""},
		{"/api/v1/pods?resourceVersion=0&fieldSelector=metadata.name%21%3Dof-mine", attrs{Verb: "list", Resource: "pods"}, "of-yours"},
		{"/api/v1/pods?resourceVersion=0&fieldSelector=metadata.name%3D..", attrs{Verb: "list", Resource: "pods"}, ""},
		{"/api/v1/pods?resourceVersion=0&fieldSelector=metadata.name%3Dmine/of-mine", attrs{Verb: "list", Resource: "pods"}, ""},
		// The review of a read does not contain its shard.
		{"/api/v1/pods?resourceVersion=0&shardSelector=", attrs{Verb: "list", Resource: "pods"}, "of-mine of-yours"},
		{"/api/v1/pods?resourceVersion=0&shardSelector=" + shardOf("0000000000000000"), attrs{Verb: "list", Resource: "pods"}, u.inHalf(t, 0)},
		{"/api/v1/pods?resourceVersion=0&shardSelector=" + shardOf("8000000000000000"), attrs{Verb: "list", Resource: "pods"}, u.inHalf(t, 1)},
		{"/api/v1/pods?resourceVersion=0&watch=1&timeoutSeconds=1&shardSelector=" + shardOf("8000000000000000"), attrs{Verb: "watch", Resource: "pods"}, u.inHalf(t, 1)},
		{"/api/v1/pods?resourceVersion=0&watch=&timeoutSeconds=1", attrs{Verb: "watch", Resource: "pods"}, "of-mine of-yours"},
		{"/api/v1/namespaces/mine/pods?resourceVersion=0&watch=true&timeoutSeconds=1", attrs{Verb: "watch", Resource: "pods", Namespace: "mine"}, "of-mine"},
		{"/api/v1/namespaces?resourceVersion=0&watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Dmine", attrs{Verb: "watch", Resource: "namespaces", Name: "mine"}, "mine"},
	}
	for _, tt := range tests {
		selects := strings.Contains(tt.path, "fieldSelector")
		u.deny(func(s authorizationv1.SubjectAccessReviewSpec) bool {
			return selects && s.ResourceAttributes.FieldSelector == nil
		})
		u.set(func() { u.reviews = nil })
		u.forwarded("")
		_, body := tp.getExactly("jane", tt.path)
		if len(u.forwarded("")) != 0 {
			t.Errorf("%s went upstream", tt.path)
		}
		if got := namesIn(t, body); got != tt.shows {
			t.Errorf("%s shows %q: %.300s", tt.path, got, body)
		}
		u.mu.Lock()
		last := *u.reviews[len(u.reviews)-1].ResourceAttributes
		u.mu.Unlock()
		tt.review.Version = "v1"
		if (last.FieldSelector != nil) != selects {
			t.Errorf("%s: asked about %+v", tt.path, last)
		}
		last.FieldSelector = nil
		check.Equal(t, last, tt.review, "%s: asked about", tt.path)
	}
}

// shardOf returns a selector of half of all UIDs. first is the lowest hash of these UIDs.
func shardOf(first string) string {
	end := map[string]string{"0000000000000000": "8000000000000000", "8000000000000000": "10000000000000000"}[first]
	return url.QueryEscape("shardRange(object.metadata.uid, '0x" + first + "', '0x" + end + "')")
}

// inHalf returns the names of the pods whose UIDs have a hash in the given half of all hashes: 0 is
// the lower half, and 1 the upper half. It uses apimachinery's hash.
func (u *fakeUpstream) inHalf(t *testing.T, half int) string {
	t.Helper()
	list, err := u.writer().CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	check.NoError(t, err)
	var names []string
	for _, p := range list.Items {
		if upper := sharding.HashField(string(p.UID)) >= "8"; upper == (half == 1) {
			names = append(names, p.Name)
		}
	}
	return strings.Join(names, " ")
}

// namesIn returns the names of the objects in an answer: an object, a list or a watch. For a Status
// it returns the empty string.
func namesIn(t *testing.T, body string) string {
	t.Helper()
	var names []string
	type object struct {
		Kind     string
		Metadata struct{ Name string }
		Items    []struct{ Metadata struct{ Name string } }
		Object   struct {
			Kind     string
			Metadata struct{ Name string }
		}
	}
	for d := json.NewDecoder(strings.NewReader(body)); d.More(); {
		var o object
		if err := d.Decode(&o); err != nil {
			t.Errorf("%v: %.300s", err, body)
			break
		}
		for _, name := range append([]struct{ Metadata struct{ Name string } }{{o.Metadata}, {o.Object.Metadata}}, o.Items...) {
			if name.Metadata.Name != "" {
				names = append(names, name.Metadata.Name)
			}
		}
	}
	return strings.Join(names, " ")
}

// getExactly sends a GET of exactly this target, which http.Client would normalize.
func (tp *testProxy) getExactly(user, target string) (code int, body string) {
	tp.t.Helper()
	path, query, _ := strings.Cut(target, "?")
	req, err := http.NewRequestWithContext(tp.ctx, http.MethodGet, tp.server.URL(), nil)
	check.NoError(tp.t, err)
	req.URL.Opaque, req.URL.RawQuery = "//"+req.URL.Host+path, query
	req.Header.Set("Authorization", "Bearer token-"+user)
	resp, err := tp.client.Do(req)
	check.NoError(tp.t, err)
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	check.NoError(tp.t, err)
	return resp.StatusCode, string(all)
}

// TestNamespaceOfNone checks that the proxy forwards a field selector of metadata.namespace for
// cluster-scoped resources, and for some built-in kinds, so that kube-apiserver refuses it.
func TestNamespaceOfNone(t *testing.T) {
	cached := []string{"pods", "nodes", "podcertificaterequests.certificates.k8s.io"}
	u, tp := startReady(t, apiserver.Options{}, Options{Resources: cached, TrustCache: cached})
	for path, want := range map[string]int{"/api/v1/nodes": 1, "/api/v1/pods": 0, "/apis/certificates.k8s.io/v1/podcertificaterequests": 1} {
		u.forwarded("")
		tp.get("jane", path+"?resourceVersion=0&fieldSelector=metadata.namespace%3Dmine")
		check.Equal(t, len(u.forwarded(path)), want, "%s: requests upstream", path)
	}
}

// TestRepresentations checks requests for a list as PartialObjectMetadata, and for an object or a
// WATCH as PartialObjectMetadataList. The proxy forwards them, and kube-apiserver answers 406. The
// proxy also forwards requests that prefer a media type that it does not support.
func TestRepresentations(t *testing.T) {
	u, tp := startPaths(t)
	const of = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	const list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	for _, c := range []struct {
		path, accept string
		passed       int
	}{
		{"/api/v1/pods?resourceVersion=0", of, 1}, {"/api/v1/pods?resourceVersion=0", list, 0},
		{"/api/v1/pods?resourceVersion=0", list + "," + of, 1}, {"/api/v1/pods?resourceVersion=0&watch=1&timeoutSeconds=1", list, 1},
		{"/api/v1/pods?resourceVersion=0&watch=1&timeoutSeconds=1", of, 0},
		{"/api/v1/nodes/node?resourceVersion=0", list, 1}, {"/api/v1/nodes/node?resourceVersion=0", of, 0},
		{"/api/v1/pods?resourceVersion=0", "application/yaml, application/json", 1}, {"/api/v1/pods?resourceVersion=0", "application/cbor, application/json", 1},
		{"/api/v1/pods?resourceVersion=0&watch=1&timeoutSeconds=1", "application/yaml, application/json", 1},
		{"/api/v1/nodes/node?resourceVersion=0", "application/yaml, application/json", 1}, {"/api/v1/nodes/node?resourceVersion=0", "application/cbor, application/json", 1},
	} {
		u.forwarded("")
		tp.get("jane", c.path, "Accept", c.accept)
		check.Equal(t, len(u.forwarded("")), c.passed, "%s as %s: requests upstream", c.path, c.accept)
	}
}

// TestOwnInformers checks that the proxy answers all requests of Weir's own informers from the
// cache.
func TestOwnInformers(t *testing.T) {
	u, tp := startPaths(t)
	pods := source.Resource{GVR: corev1.SchemeGroupVersion.WithResource("pods")}
	for _, pods.MetadataOnly = range []bool{false, true} {
		for path, accept := range map[string]string{"?resourceVersion=0": pods.Accept(false), "?resourceVersion=0&watch=1&timeoutSeconds=1": pods.Accept(true)} {
			u.forwarded("")
			tp.get("jane", pods.Path()+path, "Accept", accept)
			check.Equal(t, len(u.forwarded("")), 0, "%s as %s: requests upstream", path, accept)
		}
	}
}
