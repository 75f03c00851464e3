package proxy

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/debug"
	"github.com/weirproject/weir/internal/core/registry"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/proxy/internal/mirror"
	"github.com/weirproject/weir/proxy/internal/seats"
)

// TestInspect checks that the page of package debug shows the proxy while it runs, with its cached
// resources and its watchers.
func TestInspect(t *testing.T) {
	_, tp := start(t, apiserver.Options{Pods: 30}, Options{Resources: []string{"pods", "nonsense.example.com"}})
	tp.until("cached", func() bool { return tp.server.inspectedResource("pods").State == "current" })
	tp.watching(tp.resource("pods"))
	tp.get("jane", "/api/v1/namespaces/default/pods?resourceVersion=0")
	if w := (inspected{tp.server}).State().Watchers; len(w) != 0 {
		t.Errorf("watchers before: %+v", w)
	}
	for range 2 {
		tp.next(tp.watch("jane", "/api/v1/pods?watch=true&resourceVersion=0&labelSelector=app"), "")
	}
	tp.next(tp.watch("joan", "/api/v1/namespaces/default/pods?watch=true&resourceVersion=0&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"), "")
	state := inspected{tp.server}.State()
	var alike []registry.ProxyWatchers
	for _, w := range state.Watchers {
		w.Agent, w.Since = "", time.Time{}
		alike = append(alike, w)
	}
	want := []registry.ProxyWatchers{
		{User: "jane", Resource: "pods", Selector: "app", Count: 2},
		{User: "joan", Resource: "pods", Namespace: "default", Count: 1},
	}
	if !slices.Equal(alike, want) || state.LongRunning != 3 || state.ForwardedWatches != 0 || state.Connections == 0 || state.Lists == 0 {
		t.Errorf("%+v", state)
	}
	pods := tp.server.inspectedResource("pods")
	if pods.Objects != 30 || pods.ResourceVersion == "" || pods.Memory.Packed == 0 || pods.Watchers != 3 || pods.Heard == nil || pods.LastRead == nil ||
		pods.ListsServed != 1 || pods.Sent == 0 || pods.Reflector == nil || !pods.Reflector.Synced || len(pods.Transitions) < 3 {
		t.Errorf("%+v", pods)
	}
	if other := tp.server.inspectedResource("nonsense.example.com"); other.State == "current" || other.Objects != 0 || other.Reflector != nil {
		t.Errorf("%+v", other)
	}
	named := registry.Proxies()
	if len(named) != 1 || named[0].Name != tp.server.URL() {
		t.Errorf("%v run", named)
	}
	check.NoError(t, tp.server.Close())
	if left := registry.Proxies(); len(left) != 0 {
		t.Errorf("%v run after the end", left)
	}
	check.Equal(t, tp.server.servedWatches.all.Len(), 0, "watches are listed after their end")
}

// TestForwardedFor checks that the page shows how many requests were forwarded, and why, and the
// seats of each level.
func TestForwardedFor(t *testing.T) {
	u, tp := start(t, apiserver.Options{Pods: 30}, Options{Resources: []string{"pods", "gadgets.v1.example.org"}})
	tp.until("cached", func() bool { return tp.server.inspectedResource("pods").State == "current" })
	tp.until("missing", func() bool { return tp.server.inspectedResource("gadgets.example.org").State == "missing" })
	u.deny(func(s authorizationv1.SubjectAccessReviewSpec) bool { return s.User == "denied" })
	counts := func() map[string]uint64 {
		all := map[string]uint64{}
		for _, one := range (inspected{tp.server}).State().ForwardedFor {
			all[one.Name] = one.Count
		}
		return all
	}
	const pods = "/api/v1/namespaces/default/pods"
	for _, tt := range []struct {
		reason  mirror.Reason
		user    string
		path    string
		headers []string
	}{
		{mirror.NoReason, "jane", "/version", nil},
		{mirror.NoReason, "jane", "/version", []string{"User-Agent", "curl/8"}},
		{mirror.NoReason, "jane", pods + "?resourceVersion=0&unknown=1", nil},
		{mirror.NotCached, "jane", "/api/v1/nodes?resourceVersion=0", nil},
		{mirror.NotCached, "jane", "/apis/example.org/v1/gadgets?resourceVersion=0", nil},
		{mirror.NotCached, "jane", "/apis/example.org/v1/gadgets", nil},
		{mirror.Cheap, "jane", pods + "/some", nil},
		{mirror.Cheap, "jane", pods, nil},
		{mirror.Cheap, "jane", "/apis/example.org/v1/gadgets/some", nil},
		{mirror.Unsupported, "jane", pods + "?resourceVersion=0", []string{"Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"}},
		{forHeaders, "jane", pods + "?resourceVersion=0", []string{"User-Agent", "curl/8"}},
		{forUnallowed, "denied", pods + "?resourceVersion=0", nil},
		{mirror.Stale, "jane", pods + "?resourceVersion=9999999", nil},
	} {
		before := counts()
		tp.get(tt.user, tt.path, tt.headers...)
		after := counts()
		for reason, text := range forTexts {
			if want := before[text] + map[bool]uint64{true: 1}[mirror.Reason(reason) == tt.reason]; after[text] != want {
				t.Errorf("after %s %q: %d of %q, want %d", tt.path, tt.headers, after[text], text, want)
			}
		}
	}
	all := inspected{tp.server}.State().Seats
	if len(all) != 3*int(seats.Levels) || all[0].Of != "reads" || all[0].Level != "system-leases" {
		t.Errorf("seats: %+v", all)
	}
}

// inspectedResource returns the state of a resource as the page of package debug shows it.
func (s *Server) inspectedResource(name string) registry.ProxyResource {
	for _, r := range (inspected{s}).State().Resources {
		if r.Name == name {
			return r
		}
	}
	return registry.ProxyResource{}
}

// TestInspectedHistory checks that the page shows the logged changes of an object, without the
// values of Secrets.
func TestInspectedHistory(t *testing.T) {
	u, tp := start(t, apiserver.Options{}, Options{Resources: []string{"pods", "secrets"}})
	tp.until("cached", func() bool {
		return tp.server.inspectedResource("pods").State == "current" && tp.server.inspectedResource("secrets").State == "current"
	})
	client := u.writerPast()
	must(t)(client.CoreV1().Pods("default").Create(tp.ctx, pod("a"), metav1.CreateOptions{}))
	touch(t, tp.ctx, u, "a")
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"k": []byte("hush")}}
	must(t)(client.CoreV1().Secrets("default").Create(tp.ctx, s, metav1.CreateOptions{}))
	s.Data["k"] = []byte("hush!")
	must(t)(client.CoreV1().Secrets("default").Update(tp.ctx, s, metav1.UpdateOptions{}))
	for resource, want := range map[string]string{"pods default/a": "+ metadata.labels.touched: ", "secrets default/s": "~ data.k: (hidden), differs"} {
		name, key, _ := strings.Cut(resource, " ")
		tp.until(want, func() bool {
			text := tp.history(name, key)
			if strings.Contains(text, "aHVz") || strings.Contains(text, "hush") {
				t.Fatal(text)
			}
			return strings.Contains(text, "ADDED") && strings.Contains(text, want)
		})
	}
}

// history returns the changes of an object as the page of package debug shows them.
func (tp *testProxy) history(resource, key string) string {
	tp.t.Helper()
	w := httptest.NewRecorder()
	q := url.Values{"proxy": {tp.server.URL()}, "resource": {resource}, "key": {key}}
	debug.Handler().ServeHTTP(w, httptest.NewRequestWithContext(tp.ctx, http.MethodGet, "/history?"+q.Encode(), nil))
	var report struct {
		Changes []struct {
			Type  string
			Lines []string
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &report); err != nil || w.Code != http.StatusOK {
		tp.t.Fatalf("%d %v: %s", w.Code, err, w.Body)
	}
	text := ""
	for _, c := range report.Changes {
		text += c.Type + " " + strings.Join(c.Lines, " ") + "\n"
	}
	return text
}
