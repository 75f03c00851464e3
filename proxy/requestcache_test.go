package proxy

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
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
