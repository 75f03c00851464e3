package proxy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: None
  users: ["quiet"]
- level: RequestResponse
  resources: [{group: "", resources: ["nodes"]}]
- level: RequestResponse
  users: ["joe"]
  nonResourceURLs: ["/metrics"]
- level: Metadata
`

func writePolicy(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	check.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func auditOf(t *testing.T, path string) (events []auditv1.Event) {
	t.Helper()
	raw, err := os.ReadFile(path)
	check.NoError(t, err)
	for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
		var e auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		events = append(events, e)
	}
	return events
}

// stages returns the stages of the events with this audit ID.
func stages(events []auditv1.Event, id string) (out []auditinternal.Stage) {
	for _, e := range events {
		if string(e.AuditID) == id {
			out = append(out, auditinternal.Stage(e.Stage))
		}
	}
	return out
}

// completed returns the last event of a request, which must have exactly two events.
func completed(t *testing.T, path, id string) auditv1.Event {
	t.Helper()
	all := auditOf(t, path)
	i := slices.IndexFunc(all, func(e auditv1.Event) bool { return string(e.AuditID) == id && e.Stage == "ResponseComplete" })
	if i < 0 || len(stages(all, id)) != 2 {
		t.Fatalf("%s: recorded %v", id, stages(all, id))
	}
	return all[i]
}

// TestAudit checks that the proxy records the requests that it answers, if the policy requires
// that. A record must contain the caller, the request and the outcome. If the proxy cannot record a
// read as the policy requires, it must forward the read.
func TestAudit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit", "log")
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{
		Resources: []string{"pods", "nodes"}, Audit: Audit{PolicyFile: writePolicy(t, auditPolicy), LogPath: path},
	})
	for _, test := range []struct {
		name, user, path, id string
		code                 int
		want                 []auditinternal.Stage
		upstream             bool
	}{
		{name: "a LIST", user: "jane", path: "/api/v1/pods?resourceVersion=0&labelSelector=x%3Dy", id: "list", code: 200,
			want: []auditinternal.Stage{"RequestReceived", "ResponseComplete"}},
		{name: "a GET of what is not there", user: "jane", path: "/api/v1/namespaces/no/pods/no?resourceVersion=0", id: "get", code: 404,
			want: []auditinternal.Stage{"RequestReceived", "ResponseComplete"}},
		{name: "a WATCH", user: "jane", path: "/api/v1/pods?watch=true&resourceVersion=0&timeoutSeconds=1", id: "watch", code: 200,
			want: []auditinternal.Stage{"RequestReceived", "ResponseStarted", "ResponseComplete"}},
		{name: "who is not recorded", user: "quiet", path: "/api/v1/pods?resourceVersion=0", id: "quiet", code: 200},
		{name: "what is recorded with its answer", user: "jane", path: "/api/v1/nodes?resourceVersion=0", id: "nodes", code: 200, upstream: true},
		{name: "the WATCH of that", user: "jane", path: "/api/v1/nodes?watch=true&resourceVersion=0&timeoutSeconds=1", id: "watch-nodes", code: 200,
			want: []auditinternal.Stage{"RequestReceived", "ResponseStarted", "ResponseComplete"}},
		{name: "the metrics", user: "jane", path: "/metrics", id: "metrics", code: 200,
			want: []auditinternal.Stage{"RequestReceived", "ResponseComplete"}},
		{name: "the metrics, with their answer", user: "joe", path: "/metrics", id: "metrics-whole", code: 200,
			want: []auditinternal.Stage{"RequestReceived", "ResponseComplete"}},
		{name: "what goes upstream anyway", user: "jane", path: "/api/v1/pods", id: "fresh", code: 200, upstream: true},
	} {
		before := len(u.forwarded(test.path))
		code, body := tp.get(test.user, test.path, "Audit-ID", test.id)
		if code != test.code {
			t.Errorf("%s: %d: %.200s", test.name, code, body)
		}
		check.Equal(t, len(u.forwarded(test.path)) > before, test.upstream, "%s: upstream", test.name)
		if got := stages(auditOf(t, path), test.id); !slices.Equal(got, test.want) {
			t.Errorf("%s: recorded %v, want %v", test.name, got, test.want)
		}
	}
	e := completed(t, path, "get")
	if e.Kind != "Event" || e.APIVersion != "audit.k8s.io/v1" || e.Level != "Metadata" || e.Verb != "get" || e.User.Username != "jane" ||
		e.ObjectRef == nil || e.ObjectRef.Resource != "pods" || e.ObjectRef.Namespace != "no" || e.ObjectRef.Name != "no" || e.ObjectRef.APIVersion != "v1" ||
		e.ResponseStatus == nil || e.ResponseStatus.Code != 404 || e.RequestURI != "/api/v1/namespaces/no/pods/no?resourceVersion=0" ||
		!slices.Equal(e.SourceIPs, []string{"127.0.0.1"}) || e.Annotations["authorization.k8s.io/decision"] != "allow" || e.RequestReceivedTimestamp.IsZero() {
		t.Errorf("recorded %+v", e)
	}
	e = completed(t, path, "metrics")
	if e.Level != "Metadata" || e.Verb != "get" || e.User.Username != "jane" || e.ObjectRef != nil || e.RequestURI != "/metrics" ||
		e.ResponseStatus == nil || e.ResponseStatus.Code != 200 || e.Annotations["authorization.k8s.io/decision"] != "allow" {
		t.Errorf("recorded %+v", e)
	}
	// A request without an audit ID gets one.
	resp := tp.open(tp.client, http.MethodGet, "/api/v1/pods?resourceVersion=0", "Authorization", "Bearer token-jane")
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || completed(t, path, resp.Header.Get("Audit-ID")).RequestURI != "/api/v1/pods?resourceVersion=0" {
		t.Errorf("%v, %v", resp.Header, err)
	}
}

// TestAuditRefused checks that the proxy records the requests that it refuses itself, with the
// caller if the caller is known.
func TestAuditRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{
		Resources: []string{"pods"}, TrustCache: []string{"pods"}, MaxWatchesPerUser: 1,
		Audit: Audit{PolicyFile: writePolicy(t, auditPolicy), LogPath: path},
	})
	page := tp.continueToken()
	u.deny(func(s authorizationv1.SubjectAccessReviewSpec) bool {
		return s.ResourceAttributes != nil && s.ResourceAttributes.Verb == "impersonate"
	})
	tp.next(tp.watch("jane", "/api/v1/pods?watch=true&resourceVersion=0"), "ADDED")
	carol, foreign := tp.clientWith(tp.authCA.Issue(t, "carol")), tp.clientWith(newAuthority(t).Issue(t, "carol"))
	nothing := func() {}
	for id, test := range map[string]struct {
		client     *http.Client
		path, as   string
		code       int32
		user       string
		begin, end func()
	}{
		"unknown":    {foreign, "/version", "", 401, "", nothing, nothing},
		"unnamed":    {carol, "/version", " ", 400, "carol", nothing, nothing},
		"denied":     {carol, "/version", "joe", 403, "carol", nothing, nothing},
		"expired":    {tp.client, "/api/v1/configmaps?limit=1&continue=" + page, "", 410, "jane", nothing, nothing},
		"too many":   {tp.client, "/api/v1/pods?watch=true&resourceVersion=0", "", 429, "jane", nothing, nothing},
		"unanswered": {tp.client, "/api/v1/pods?resourceVersion=0", "", 503, "jane", func() { u.refuseReviews(500) }, func() { u.setFault(nil) }},
		"down":       {tp.client, "/api/v1/configmaps", "", 503, "jane", func() { u.setDown(true) }, func() { u.setDown(false) }},
		"no metrics": {tp.client, "/metrics", "joe", 403, "jane", nothing, nothing},
	} {
		headers := []string{"Audit-ID", id}
		if test.client == tp.client {
			headers = append(headers, "Authorization", "Bearer token-jane")
		}
		if test.as != "" {
			headers = append(headers, "Impersonate-User", test.as)
		}
		test.begin()
		resp := tp.open(test.client, http.MethodGet, test.path, headers...)
		test.end()
		e := completed(t, path, id)
		if e.ResponseStatus.Code != test.code || e.ResponseStatus.Message == "" || e.User.Username != test.user || e.RequestURI != test.path ||
			len(e.Annotations) > 0 || resp.StatusCode != int(test.code) || resp.Header.Get("Audit-ID") != id {
			t.Errorf("%s: %s, recorded %+v", id, resp.Status, e)
		}
	}
}

// TestAuditNoBody checks that the proxy records a request that it refuses because the body is not
// received.
func TestAuditNoBody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	wait := timing(func(w *timeouts) { w.discard = 50 * time.Millisecond })
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{
		Resources: []string{"pods"}, TrustCache: []string{"pods"}, MaxWatchesPerUser: 1, timeouts: wait,
		Audit: Audit{PolicyFile: writePolicy(t, auditPolicy), LogPath: path},
	})
	page := tp.continueToken()
	tp.next(tp.watch("jane", "/api/v1/pods?watch=true&resourceVersion=0"), "ADDED")
	for _, test := range []struct {
		what, method, path string
		fault              bool
	}{
		{"too many", "GET", "/api/v1/pods?watch=true&resourceVersion=0", false},
		{"expired", "GET", "/api/v1/configmaps?limit=1&continue=" + page, false},
		{"unanswered", "GET", "/api/v1/pods?resourceVersion=0", true},
		{"metrics", "GET", "/metrics", false},
		{"no method of the metrics", "PUT", "/metrics", false},
		{"not refused otherwise", "GET", "/api/v1/pods?resourceVersion=0", false},
	} {
		if test.fault {
			u.refuseReviews(500)
		}
		resp := tp.dial("http/1.1").send(test.method, test.path, 100, "x").answer()
		u.setFault(nil)
		if e := completed(t, path, resp.Header.Get("Audit-ID")); resp.StatusCode != http.StatusRequestTimeout || e.ResponseStatus.Code != http.StatusRequestTimeout || e.RequestURI != test.path {
			t.Errorf("%s: %s, recorded %+v", test.what, resp.Status, e)
		}
	}
}

// TestAuditImpersonated checks that the proxy records the impersonation by a caller with a
// certificate, because the upstream's log names the proxy as the caller. Both records must have the
// same audit ID. An impersonation that cannot be recorded must not be forwarded.
func TestAuditImpersonated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	u, tp := start(t, apiserver.Options{Pods: 3}, Options{
		Audit:          Audit{PolicyFile: writePolicy(t, auditPolicy), LogPath: path},
		Authentication: Authentication{TokenTTL: deadline, AllowTTL: deadline, DenyTTL: deadline},
	})
	carol := tp.clientWith(tp.authCA.Issue(t, "carol"))
	ask := func(id string, more ...string) (int, []asked) {
		t.Helper()
		u.forwarded("")
		resp := tp.open(carol, http.MethodGet, "/api/v1/nodes", append(more, "Audit-ID", id)...)
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, u.forwarded("/api/v1/nodes")
	}
	joe := []string{"Impersonate-User", "joe", "Impersonate-Group", "staff"}
	code, passed := ask("joe", joe...)
	if code != http.StatusOK || len(passed) != 1 || !slices.Equal(passed[0].header.Values("Audit-ID"), []string{"joe"}) {
		t.Errorf("%d, upstream: %v", code, passed)
	}
	ask("herself")
	u.setDown(true)
	if code, _ := ask("down", joe...); code != http.StatusServiceUnavailable {
		t.Error(code)
	}
	u.setDown(false)
	for id, want := range map[string]int32{"joe": 200, "down": 503} {
		if e := completed(t, path, id); e.Level != "Metadata" || e.User.Username != "carol" || e.ImpersonatedUser == nil || e.ImpersonatedUser.Username != "joe" ||
			!slices.Equal(e.ImpersonatedUser.Groups, []string{"staff"}) || e.ResponseStatus.Code != want {
			t.Errorf("%s: recorded %+v", id, e)
		}
	}
	if got := stages(auditOf(t, path), "herself"); len(got) > 0 {
		t.Errorf("a request without impersonation is recorded: %v", got)
	}
	tp.server.auditor.Sink.Backend = &failing{Backend: tp.server.auditor.Sink.Backend}
	if code, passed := ask("unrecorded", joe...); code != http.StatusInternalServerError || len(passed) > 0 {
		t.Errorf("what cannot be recorded: %d, upstream: %v", code, passed)
	}
}

// TestAuditWebhook checks that the webhook receives all recorded events, at the latest when the
// proxy closes.
func TestAuditWebhook(t *testing.T) {
	var mu sync.Mutex
	var got []auditv1.Event
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var list auditv1.EventList
		if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
			t.Error(err)
		}
		mu.Lock()
		got = append(got, list.Items...)
		mu.Unlock()
	}))
	defer hook.Close()
	config := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: " + hook.URL + "}}]\ncontexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"
	check.NoError(t, os.WriteFile(config, []byte(text), 0o600))
	_, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, Audit: Audit{PolicyFile: writePolicy(t, auditPolicy), WebhookConfigFile: config}})
	tp.want(http.StatusOK, "jane", "/api/v1/pods?resourceVersion=0", "Audit-ID", "list")
	check.NoError(t, tp.server.Close())
	mu.Lock()
	defer mu.Unlock()
	if s := stages(got, "list"); len(s) != 2 {
		t.Errorf("was sent %v", s)
	}
}

// TestAuditOptions checks that New returns an error for audit options that make no sense.
func TestAuditOptions(t *testing.T) {
	for name, o := range map[string]Audit{"no policy": {LogPath: "-"}, "no such policy": {PolicyFile: filepath.Join(t.TempDir(), "none"), LogPath: "-"}} {
		if _, err := New(t.Context(), Options{Upstream: &rest.Config{Host: "localhost"}, Audit: o, Authentication: Authentication{SkipLookup: true}}); !errors.Is(err, ErrInvalidOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWarnings checks that responses from the cache contain the warnings that the upstream sends.
func TestWarnings(t *testing.T) {
	u := startUpstream(t, apiserver.Options{Pods: 3})
	const text = `299 - "v1 Pod is deprecated in v1.99+"`
	u.warn("/api/v1/pods", text)
	tp := startProxy(t, u, Options{Resources: []string{"pods", "nodes"}})
	tp.ready()
	for path, want := range map[string]string{"/api/v1/pods?resourceVersion=0": text, "/api/v1/nodes?resourceVersion=0": ""} {
		resp := tp.open(tp.client, http.MethodGet, path, "Authorization", "Bearer token-jane")
		if got := strings.Join(resp.Header.Values("Warning"), ";"); got != want || len(u.forwarded(path)) > 0 {
			t.Errorf("%s: warned %q, want %q", path, got, want)
		}
	}
}
