package proxy

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"k8s.io/klog/v2"

	"github.com/weirproject/weir/apiserver"
)

func TestRequestCache(t *testing.T) {
	rc := newRequestCache()
	const pods = "/api/v1/pods?resourceVersion=0&labelSelector=app%3Dweb"
	get := func(method, target string, header ...string) parsedRequest {
		r := httptest.NewRequest(method, target, nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		pr, all := rc.lookup(r)
		if !all {
			pr = rc.parse(r, pr)
		}
		return pr
	}
	first := get(http.MethodGet, pods)
	if first.read == nil || first.info.Verb != "list" || first.read.review.labelText != "app=web" {
		t.Fatalf("%+v", first.info)
	}
	if again := get(http.MethodGet, pods); again != first {
		t.Error("the same URL is read again")
	}
	for _, header := range [][2]string{{"Impersonate-User", "jane"}, {"Upgrade", "websocket"}, {"Origin", "https://example.com"}} {
		if pr := get(http.MethodGet, pods, header[0], header[1]); pr.read != nil || pr.info != first.info {
			t.Errorf("with %s it is a read", header[0])
		}
	}
	if again := get(http.MethodGet, pods); again != first {
		t.Error("what a header says of one request is remembered for all")
	}
	if pr := get(http.MethodPost, pods); pr.read != nil || pr.info.Verb != "create" {
		t.Errorf("a POST is a read, or %+v", pr.info)
	}
	// A path may have the separator in it.
	if pr := get(http.MethodGet, "/api/v1/pods%3FresourceVersion=0&labelSelector=app%3Dweb"); pr == first {
		t.Error("two URLs are taken for one")
	}
	// A name may have one too, and then it is another one.
	if first, second := get(http.MethodGet, "/api/v1/namespaces/n/pods"), get(http.MethodGet, "/api/v1/namespaces/n%2Fpods"); first.read == nil || second.read != nil {
		t.Error("a path is taken for one that is escaped otherwise")
	}
	if pr := get(http.MethodGet, "/api/v1/pods?labelSelector="+strings.Repeat("x", 60)+"%3Da,"+strings.Repeat("y", maxCachedURL)); pr.info == nil {
		t.Error("nothing is known of a long URL")
	}
	if n := rc.parsed.Len(); n != 4 {
		t.Errorf("%d are remembered", n)
	}
	for i := range 2 * maxCachedRequests {
		get(http.MethodGet, pods+strconv.Itoa(i))
	}
	if n := rc.parsed.Len(); n > maxCachedRequests {
		t.Errorf("%d are remembered, at most %d", n, maxCachedRequests)
	}
}

// TestTerminals: what kube-apiserver indents is the upstream's, but for browsers: JSON, and nothing
// else. A WATCH is never indented.
func TestTerminals(t *testing.T) {
	u := startUpstream(t, apiserver.Options{Pods: 1})
	tp := startProxy(t, u, Options{Resources: []string{"pods"}})
	tp.ready()
	const protobuf = "application/vnd.kubernetes.protobuf"
	for agent, indents := range map[string]bool{"curl/8.5.0": true, "Wget/1.21": true, "Mozilla/5.0 (X11)": false, "kubectl/v1.37.0": false} {
		for accept, json := range map[string]bool{
			"": true, "*/*": true, "application/json": true, "application/json," + protobuf: true, protobuf: false, protobuf + ",application/json": false,
			"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1": true, protobuf + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1": false,
		} {
			for path, indentable := range map[string]bool{
				"/api/v1/pods?resourceVersion=0": true, "/api/v1/pods?watch=true&resourceVersion=0&timeoutSeconds=1": false,
			} {
				if strings.Contains(accept, "as=") && !indentable {
					continue // a WATCH is not of lists
				}
				tp.get("jane", path, "User-Agent", agent, "Accept", accept)
				if got, here := len(u.forwarded("/api/v1/")) == 0, !(indents && json && indentable); got != here {
					t.Errorf("%s %s %q: answered here: %v, want %v", agent, path, accept, got, here)
				}
			}
		}
		tp.get("jane", "/api/v1/namespaces/default/pods/x?resourceVersion=0", "User-Agent", agent)
		if got := len(u.forwarded("/api/v1/")) == 0; got != !indents {
			t.Errorf("%s, a GET: answered here: %v", agent, got)
		}
	}
}

// TestLongTargetsAreNotKept: the host of an absolute target, which nobody reads, is not kept with
// its path.
func TestLongTargetsAreNotKept(t *testing.T) {
	u := startUpstream(t, apiserver.Options{})
	tp := startProxy(t, u, Options{})
	const requests, size = 50, 200 << 10
	host := strings.Repeat("a", size)
	ask := func(n int) {
		for i := range n {
			r := httptest.NewRequest(http.MethodGet, fmt.Sprintf("https://%s/version?%d", host, i), nil).WithContext(tp.ctx)
			tp.server.ServeHTTP(httptest.NewRecorder(), r)
		}
	}
	used := func() int64 {
		u.forwarded("")
		for range 3 {
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	ask(5)
	before := used()
	ask(requests)
	if grown := used() - before; grown > requests*size/4 {
		t.Errorf("%d requests have left %d bytes", requests, grown)
	}
}

// TestInfoIsSmall: what is kept of a path as long as its request lasts is no multiple of that, and
// nothing of a selector that cannot be read is logged.
func TestInfoIsSmall(t *testing.T) {
	if info := requestInfoOf(http.MethodGet, &url.URL{Path: "/api/v1/namespaces/a/pods" + strings.Repeat("/x", 1000)}); info.Parts != nil || info.Resource != "pods" {
		t.Errorf("%+v", info)
	}
	var logged bytes.Buffer
	klog.SetOutput(&logged)
	klog.LogToStderr(false)
	defer klog.LogToStderr(true)
	info := requestInfoOf(http.MethodGet, &url.URL{Path: "/api/v1/pods", RawQuery: "fieldSelector=x&watch=" + strings.Repeat("y", 1000)})
	if klog.Flush(); logged.Len() > 0 || info.Verb != "watch" {
		t.Errorf("%s; logged %q", info.Verb, logged.String())
	}
}
