package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgo "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestAgainstClientGo checks that Discovery and client-go's discovery client return the same
// resources for Weir's test server, for aggregated and for plain responses.
func TestAgainstClientGo(t *testing.T) {
	server, err := apiserver.New(apiserver.Options{Resources: []apiserver.Resource{
		{GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, Kind: "Widget", Status: true},
	}})
	check.NoError(t, err)
	defer server.Close()
	check.NoError(t, server.Start())
	theirs, err := clientgo.NewDiscoveryClientForConfig(server.Config())
	check.NoError(t, err)
	for _, test := range []struct {
		name   string
		config *rest.Config
	}{
		{"aggregated", server.Config()},
		{"plain", &rest.Config{Host: server.URL(), Transport: plain{}}},
	} {
		theirs.UseLegacyDiscovery = test.name == "plain"
		_, want, err := theirs.ServerGroupsAndResources()
		check.NoError(t, err)
		got, err := client(t, test.config).All(t.Context())
		check.NoError(t, err)
		if len(got) < 18 || len(got) != len(want) {
			t.Fatalf("%s: %d lists, want %d", test.name, len(got), len(want))
		}
		for _, l := range want {
			at := slices.IndexFunc(got, func(g *metav1.APIResourceList) bool { return g.GroupVersion == l.GroupVersion })
			if at < 0 || !reflect.DeepEqual(got[at].APIResources, l.APIResources) {
				t.Errorf("%s: of %s we have %v in %v", test.name, l.GroupVersion, at, got)
			}
		}
	}
}

// plain is a transport that removes aggregated media types from requests, so that the server
// responds in the plain form.
type plain struct{}

func (plain) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Accept", "application/json")
	return http.DefaultTransport.RoundTrip(r)
}

func client(t *testing.T, cfg *rest.Config) *Discovery {
	t.Helper()
	c, err := NewDiscovery(cfg)
	check.NoError(t, err)
	return c
}

// serve returns a client of a server. The server responds to each path with the path's value in
// answers: an int is a status code, a string is an aggregated response, and any other value is
// encoded as JSON.
func serve(t *testing.T, answers map[string]any) *Discovery {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		switch answer := answer.(type) {
		case int:
			w.WriteHeader(answer)
			json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
				Code: int32(answer), Reason: metav1.StatusReasonForbidden, Message: "jane may not"})
		case string:
			w.Header().Set("Content-Type", "application/json; as=APIGroupDiscoveryList;v=v2; charset=utf-8;g=apidiscovery.k8s.io")
			fmt.Fprint(w, answer)
		default:
			if !ok {
				http.NotFound(w, r)
				return
			}
			json.NewEncoder(w).Encode(answer)
		}
	}))
	t.Cleanup(server.Close)
	return client(t, &rest.Config{Host: server.URL})
}

// names returns the group versions of the lists, in their order.
func names(lists []*metav1.APIResourceList) (names []string) {
	for _, l := range lists {
		names = append(names, l.GroupVersion)
	}
	return names
}

func list(groupVersion string) metav1.APIResourceList {
	return metav1.APIResourceList{GroupVersion: groupVersion, APIResources: []metav1.APIResource{{Name: "things", Kind: "Thing"}}}
}

// TestPlain checks All with a server without aggregated discovery. The preferred version of each
// group comes first. If some versions fail, All must return the other lists and an error. If /api
// or /apis is forbidden or malformed, All must fail.
func TestPlain(t *testing.T) {
	group := func(name, preferred string, versions ...string) metav1.APIGroup {
		g := metav1.APIGroup{Name: name, PreferredVersion: metav1.GroupVersionForDiscovery{Version: preferred}}
		for _, v := range versions {
			g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{Version: v})
		}
		return g
	}
	answers := map[string]any{
		"/api":         metav1.APIVersions{Versions: []string{"v1"}},
		"/apis":        metav1.APIGroupList{Groups: []metav1.APIGroup{group("b", "v1", "v2", "v1", "v3"), group("a", "v1", "v1")}},
		"/api/v1":      list("v1"),
		"/apis/b/v1":   list("b/v1"),
		"/apis/b/v2":   list("b/v2"),
		"/apis/b/v3":   list("b/v3"),
		"/apis/a/v1":   list("a/v1"),
		"/apis/a/none": 0,
	}
	lists, err := serve(t, answers).All(t.Context())
	if want := []string{"v1", "b/v1", "b/v2", "b/v3", "a/v1"}; err != nil || !slices.Equal(names(lists), want) {
		t.Errorf("%v, %v; want %v", names(lists), err, want)
	}
	answers["/apis/b/v2"] = http.StatusForbidden
	lists, err = serve(t, answers).All(t.Context())
	if want := []string{"v1", "b/v1", "b/v3", "a/v1"}; !slices.Equal(names(lists), want) {
		t.Errorf("%v, want %v", names(lists), want)
	}
	if !apierrors.IsForbidden(err) || !strings.HasPrefix(err.Error(), "b/v2: jane may not") {
		t.Errorf("error %v", err)
	}
	delete(answers, "/api") // an aggregated API server has no /api
	if lists, err = serve(t, answers).All(t.Context()); len(lists) != 3 || err == nil {
		t.Errorf("%v, %v", names(lists), err)
	}
	for _, path := range []string{"/api", "/apis"} {
		answers["/api"] = metav1.APIVersions{}
		answers[path] = http.StatusForbidden
		if lists, err := serve(t, answers).All(t.Context()); !apierrors.IsForbidden(err) || lists != nil {
			t.Errorf("%s is forbidden: %v, %v", path, names(lists), err)
		}
		answers[path] = "{"
		if _, err := serve(t, answers).All(t.Context()); !errors.Is(err, wire.ErrMalformed) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s is malformed: %v", path, err)
		}
	}
}

// TestAggregated checks that All omits resources without a kind, which the server lists only for
// their subresources. If one version is stale, All must return the lists of the other versions and
// ErrStale.
func TestAggregated(t *testing.T) {
	c := serve(t, map[string]any{"/api": `{}`, "/apis": `{"items":[{"metadata":{"name":"g"},"versions":[
		{"version":"v2","freshness":"Stale"},
		{"version":"v1","freshness":"Current","resources":[
			{"resource":"things","singularResource":"thing","scope":"Namespaced","verbs":["list"],"shortNames":["th"],"categories":["all"],
			 "responseKind":{"group":"g","version":"v1","kind":"Thing"},
			 "subresources":[{"subresource":"status","verbs":["get"],"responseKind":{"group":"g","version":"v1","kind":"Thing"}},{"subresource":"log"}]},
			{"resource":"parents","subresources":[{"subresource":"child","responseKind":{"kind":"Child"}}]}]}]}]}`})
	lists, err := c.All(t.Context())
	if !errors.Is(err, ErrStale) || !strings.HasPrefix(err.Error(), "g/v2: ") {
		t.Errorf("error %v", err)
	}
	want := []*metav1.APIResourceList{{GroupVersion: "g/v1", APIResources: []metav1.APIResource{
		{Name: "things", SingularName: "thing", Namespaced: true, Group: "g", Version: "v1", Kind: "Thing", Verbs: metav1.Verbs{"list"},
			ShortNames: []string{"th"}, Categories: []string{"all"}},
		{Name: "things/status", SingularName: "thing", Namespaced: true, Group: "g", Version: "v1", Kind: "Thing", Verbs: metav1.Verbs{"get"}},
		{Name: "parents/child", Kind: "Child"},
	}}}
	if !reflect.DeepEqual(lists, want) {
		t.Errorf("%+v", lists)
	}
}

// TestAggregatedBeta checks that All sends only two requests, for /api and /apis, if the server
// supports aggregated discovery only in version v2beta1.
func TestAggregatedBeta(t *testing.T) {
	const mediaType = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		if !strings.Contains(r.Header.Get("Accept"), mediaType) {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", mediaType)
		fmt.Fprintf(w, `{"items":[{"metadata":{"name":%q},"versions":[{"version":"v1","resources":[
			{"resource":"things","scope":"Namespaced","responseKind":{"version":"v1","kind":"Thing"}}]}]}]}`, strings.TrimPrefix(r.URL.Path, "/api"))
	}))
	defer server.Close()
	lists, err := client(t, &rest.Config{Host: server.URL}).All(t.Context())
	if want := []string{"v1", "s/v1"}; err != nil || !slices.Equal(names(lists), want) || !slices.Equal(asked, []string{"/api", "/apis"}) {
		t.Errorf("%q, %v; asked for %q", names(lists), err, asked)
	}
}

func TestGroupVersion(t *testing.T) {
	c := serve(t, map[string]any{"/apis/g/v1": list("g/v1"), "/api/v1": http.StatusForbidden})
	if l, err := c.GroupVersion(t.Context(), schema.GroupVersion{Group: "g", Version: "v1"}); err != nil || len(l.APIResources) != 1 {
		t.Errorf("%v, %v", l, err)
	}
	if _, err := c.GroupVersion(t.Context(), schema.GroupVersion{Version: "v1"}); !apierrors.IsForbidden(err) {
		t.Errorf("forbidden: %v", err)
	}
	if _, err := c.GroupVersion(t.Context(), schema.GroupVersion{Version: "v2"}); !apierrors.IsNotFound(err) {
		t.Errorf("not there: %v", err)
	}
}

// TestGroupVersionRefused checks that GroupVersion does not repeat a refused request. The returned
// error must have the delay of the Retry-After header if the body is not a Status, or if it is a
// Status with a shorter delay or without a delay.
func TestGroupVersionRefused(t *testing.T) {
	status := func(seconds int32) string {
		raw, err := json.Marshal(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
			Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Details: &metav1.StatusDetails{RetryAfterSeconds: seconds}})
		check.NoError(t, err)
		return string(raw)
	}
	for name, answer := range map[string]struct{ contentType, body string }{
		"no Status":                   {"text/plain", "too many requests"},
		"a Status without the time":   {"application/json", status(0)},
		"a Status with a shorter one": {"application/json", status(5)},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				w.Header().Set("Content-Type", answer.contentType)
				w.Header().Set("Retry-After", "60")
				w.WriteHeader(http.StatusTooManyRequests)
				fmt.Fprint(w, answer.body)
			}))
			defer server.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := client(t, &rest.Config{Host: server.URL}).GroupVersion(ctx, schema.GroupVersion{Group: "g", Version: "v1"})
			if seconds, ok := apierrors.SuggestsClientDelay(err); !apierrors.IsTooManyRequests(err) || !ok || seconds != 60 {
				t.Errorf("%v; ask again after %d s", err, seconds)
			}
			check.Equal(t, asked.Load(), 1, "asked times")
		})
	}
}
