package request

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/testing/check"
)

func get(at *url.URL) *http.Request { return &http.Request{Method: http.MethodGet, URL: at} }

// TestCache checks that equal requests share a result, and that requests that differ in their URL,
// headers or strictness do not. It also checks the limits of the cache.
func TestCache(t *testing.T) {
	reads.Clear()
	const pods = "/api/v1/pods?resourceVersion=0&labelSelector=app%3Dweb"
	strict := func(target string, header ...string) *Request {
		r := httptest.NewRequest(http.MethodGet, target, nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Add(header[i], header[i+1])
		}
		return Strict(r)
	}
	first := strict(pods)
	if first == nil || first.Verb != "list" || first.LabelText != "app=web" {
		t.Fatalf("%+v", first)
	}
	if strict(pods) != first {
		t.Error("an equal request is parsed again")
	}
	if other := strict(pods, "Accept", "application/json"); other == nil || other == first {
		t.Error("a request with another Accept header shares the result")
	}
	if a := strict(pods, "Accept", "application/json", "Accept", "text/html"); a == nil || a.Accept.IsStrict("") {
		t.Error("the second Accept header is ignored")
	}
	if lenient, err := Parse(httptest.NewRequest(http.MethodGet, pods, nil)); err != nil || lenient == first {
		t.Errorf("strict and lenient results are mixed: %v", err)
	}
	if rq, ok := CachedStrict(httptest.NewRequest(http.MethodPost, pods, nil)); rq != nil || !ok {
		t.Errorf("a POST is a read: %+v", rq)
	}
	// An escaped path may contain a question mark or a slash.
	if strict("/api/v1/pods%3FresourceVersion=0&labelSelector=app%3Dweb") != nil {
		t.Error("two URLs share a result")
	}
	if strict("/api/v1/namespaces/n/pods") == nil || strict("/api/v1/namespaces/n%2Fpods") != nil {
		t.Error("a path shares the result of one with other escapes")
	}
	// A request that is not strict is also cached.
	if rq, ok := CachedStrict(httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/n%2Fpods", nil)); rq != nil || !ok {
		t.Errorf("%+v, %v", rq, ok)
	}
	long := pods + ",a+in+(" + strings.Repeat("y,", MaxCachedBytes/2) + "y)"
	for _, tt := range []struct{ target, accept string }{{long, ""}, {pods, strings.Repeat("y", MaxCachedBytes)}} {
		r := httptest.NewRequest(http.MethodGet, tt.target, nil)
		r.Header.Set("Accept", tt.accept)
		if Strict(r) == nil {
			t.Errorf("%.100q is not strict", tt)
		}
		if _, ok := CachedStrict(r); ok {
			t.Errorf("%.100q is cached", tt)
		}
	}
	for range 2 {
		if _, err := Parse(httptest.NewRequest(http.MethodGet, "/api/v1/pods?limit=many", nil)); err == nil {
			t.Error("a limit that is no number")
		}
	}
	for i := range maxCachedReads + 100 {
		strict(pods + strconv.Itoa(i))
	}
	check.Equal(t, reads.Len(), maxCachedReads, "requests are cached")
}

// TestParse checks Parse with requests that kube-apiserver accepts, most of which are not strict,
// and with requests that are not reads of a resource.
func TestParse(t *testing.T) {
	for target, want := range map[string]struct {
		verb, namespace, name, selected string
		watch                           bool
	}{
		"/api/v1/watch/namespaces/n/pods/x?watch=false":      {"watch", "n", "x", "", true},
		"/api/v1/watch/pods?fieldSelector=metadata.name%3Dx": {"watch", "", "", "", true},
		"/api/v1/pods?fieldSelector=metadata.name%3Dx&watch": {"watch", "", "", "x", true},
		"/api/v1/pods?fieldSelector=metadata.name%3Da/b":     {"list", "", "", "", false},
		"/api/v1/pods?unknown=1&limit=1&limit=x":             {"list", "", "", "", false},
		"/api/v1/namespaces/n?limit=x":                       {"get", "", "n", "", false},
		"//api/v1/namespaces/n/pods/x/status/":               {"get", "n", "x", "", false},
	} {
		r := httptest.NewRequest(http.MethodHead, target, nil)
		rq, err := Parse(r)
		if err != nil {
			t.Errorf("%s: %v", target, err)
			continue
		}
		if rq.Verb != want.verb || rq.Namespace != want.namespace || rq.Name != want.name || rq.Selected != want.selected || rq.Watch != want.watch {
			t.Errorf("%s: %+v", target, rq)
		}
		r.Method = http.MethodGet
		if Strict(r) != nil && !strings.Contains(target, "?fieldSelector") {
			t.Errorf("%s is strict", target)
		}
	}
	for _, target := range []string{"/", "/api/v1", "/api/v1/proxy/nodes/n", "/version"} {
		if _, err := Parse(httptest.NewRequest(http.MethodGet, target, nil)); err != ErrNotRead {
			t.Errorf("%s: %v", target, err)
		}
	}
}

// TestVersions checks the methods of Options that say which states may serve a request, and the
// errors of ParseOptions for invalid versions.
func TestVersions(t *testing.T) {
	token := ContinueToken{ResourceVersion: 7, Start: "a"}.String()
	gone := ContinueToken{ResourceVersion: Inconsistent, MinResourceVersion: 9, Start: "a"}.String()
	for query, want := range map[string]struct {
		consistent, any, state bool
		exact, least           uint64
	}{
		"":                  {consistent: true, state: true},
		"resourceVersion=0": {any: true, state: true},
		"resourceVersion=5": {least: 5},
		"resourceVersion=5&resourceVersionMatch=Exact":                {exact: 5, least: 5},
		"resourceVersion=5&limit=2":                                   {exact: 5, least: 5},
		"resourceVersion=5&limit=2&resourceVersionMatch=NotOlderThan": {least: 5},
		"limit=2":                   {consistent: true, state: true},
		"continue=" + token:         {least: 7, state: true},
		"continue=" + gone:          {least: 9, state: true},
		"watch=1":                   {consistent: true, state: true},
		"watch=1&limit=2":           {consistent: true, state: true},
		"watch=1&resourceVersion=0": {any: true, state: true},
		"watch=1&resourceVersion=5": {exact: 5},
		"watch=1&resourceVersion=5&sendInitialEvents=true&resourceVersionMatch=NotOlderThan":  {least: 5, state: true},
		"watch=1&resourceVersion=5&sendInitialEvents=false&resourceVersionMatch=NotOlderThan": {exact: 5},
	} {
		q, err := url.ParseQuery(query)
		check.NoError(t, err)
		o, err := ParseOptions(q)
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		if o.Consistent() != want.consistent || o.AnyVersion() != want.any || o.ExactVersion() != want.exact || o.MinVersion() != want.least || o.StartsWithState() != want.state {
			t.Errorf("%s: %+v", query, o)
		}
	}
	for _, query := range []string{"continue=x", "continue=" + token + "&resourceVersion=5", "resourceVersion=x", "resourceVersionMatch=Exact", "shardSelector=x"} {
		q, _ := url.ParseQuery(query)
		if o, err := ParseOptions(q); err == nil {
			t.Errorf("%s: %+v", query, o)
		}
	}
}

// TestParameters checks that Strict accepts each parameter of metav1.ListOptions. The test fails if
// a new version of Kubernetes has an additional parameter.
func TestParameters(t *testing.T) {
	for field := range reflect.TypeFor[metav1.ListOptions]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if _, ok := parameters[name]; name != "" && !ok {
			t.Errorf("%s is not in parameters", name)
		}
	}
}

// TestCostlySelectors checks that a request is not strict if its selector exceeds a limit.
func TestCostlySelectors(t *testing.T) {
	terms := func(form string, n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(form, i))
		}
		return url.QueryEscape(strings.Join(all, ","))
	}
	shards := func(size int) string {
		const one = "shardRange(object.metadata.uid, '0x0000000000000000', '0x10000000000000000')"
		return url.QueryEscape(strings.Repeat(" ", size-len(one)) + one)
	}
	for query, here := range map[string]bool{
		"labelSelector=" + terms("a%d", MaxLabelRequirements):                                         true,
		"labelSelector=" + terms("a%d", MaxLabelRequirements+1):                                       false,
		"labelSelector=" + url.QueryEscape("a in ("+strings.Repeat("value,", 1000)+"v)"):              true,
		"labelSelector=" + url.QueryEscape("a in ("+strings.Repeat("value,", MaxSelector/6)+"value)"): false,
		"fieldSelector=" + terms("spec.nodeName!=%d", MaxFieldRequirements):                           true,
		"fieldSelector=" + terms("spec.nodeName!=%d", MaxFieldRequirements+1):                         false,
		"shardSelector=" + shards(MaxSelector):                                                        true,
		"shardSelector=" + shards(MaxSelector+1):                                                      false,
	} {
		for _, verb := range []string{"", "watch=true&"} {
			at := &url.URL{Path: "/api/v1/pods", RawQuery: verb + query}
			check.Equal(t, Strict(get(at)) != nil, here, "%s%.60s… (%d bytes): strict", verb, query, len(query))
		}
	}
}
