package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

// lines is a writer that stores lines. It fails after the first call of fail.
type lines struct {
	mu     sync.Mutex
	text   bytes.Buffer
	failed bool
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed {
		return 0, errors.New("the disk is full")
	}
	return l.text.Write(p)
}

// TestAuditLog checks the events of an audit log: their fields, stages and order.
func TestAuditLog(t *testing.T) {
	log := &lines{}
	s, err := New(Options{Pods: 3, AuditLog: log, MinWatch: time.Hour})
	check.NoError(t, err)
	defer s.Close()
	server := httptest.NewServer(s)
	defer server.Close()
	send := func(method, path, body string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		check.NoError(t, err)
		r.Header.Set("User-Agent", strings.Repeat("a", 2000))
		r.Header.Set("Content-Type", "application/json")
		if method == http.MethodPost {
			r.Header.Set("Impersonate-User", "jane")
		}
		resp, err := server.Client().Do(r)
		check.NoError(t, err)
		return resp
	}
	for _, rq := range [][3]string{
		{"GET", "/api/v1/pods?limit=2", ""}, {"GET", "/apis/apps/v1/namespaces/shop/deployments/none/status", ""},
		{"POST", "/api/v1/namespaces", `{"metadata":{"name":"blue"}}`}, {"DELETE", "/api/v1/namespaces/blue", ""}, {"BREW", "/nowhere", ""},
	} {
		send(rq[0], rq[1], rq[2]).Body.Close()
	}
	send("GET", "/api/v1/pods?watch=true&timeoutSeconds=1", "").Body.Close()
	server.Close() // waits for the watch
	var got []string
	for line := range strings.Lines(log.text.String()) {
		var e struct {
			Kind, APIVersion, Level, AuditID, Stage, RequestURI, Verb, UserAgent string
			User, ImpersonatedUser                                               struct{ Username string }
			SourceIPs                                                            []string
			ObjectRef                                                            struct{ Resource, Namespace, Name, APIGroup, APIVersion, Subresource string }
			ResponseStatus                                                       struct{ Code int }
			Received                                                             time.Time `json:"requestReceivedTimestamp"`
			Staged                                                               time.Time `json:"stageTimestamp"`
		}
		check.NoError(t, json.Unmarshal([]byte(line), &e))
		if e.Kind != "Event" || e.APIVersion != "audit.k8s.io/v1" || e.Level != "Metadata" || e.AuditID == "" || len(e.UserAgent) != maxAgent ||
			e.User.Username != "admin" || len(e.SourceIPs) != 1 || e.SourceIPs[0] != "127.0.0.1" || e.Staged.Before(e.Received) || time.Since(e.Received) > time.Hour {
			t.Errorf("%s", line)
		}
		o := e.ObjectRef
		got = append(got, strings.Join([]string{e.Stage, e.Verb, e.RequestURI, o.APIGroup, o.APIVersion, o.Resource, o.Subresource, o.Namespace, o.Name,
			e.ImpersonatedUser.Username, http.StatusText(e.ResponseStatus.Code)}, " "))
	}
	// The server writes an event after the response, so the next request's event may be first.
	slices.Sort(got)
	check.Equal(t, strings.Join(got, "\n"), strings.Join([]string{
		"ResponseComplete brew /nowhere        Method Not Allowed",
		"ResponseComplete create /api/v1/namespaces  v1 namespaces    jane Created",
		"ResponseComplete delete /api/v1/namespaces/blue  v1 namespaces  blue blue  OK",
		"ResponseComplete get /apis/apps/v1/namespaces/shop/deployments/none/status apps v1 deployments status shop none  Not Found",
		"ResponseComplete list /api/v1/pods?limit=2  v1 pods     OK",
		"ResponseComplete watch /api/v1/pods?watch=true&timeoutSeconds=1  v1 pods     OK",
		"ResponseStarted watch /api/v1/pods?watch=true&timeoutSeconds=1  v1 pods     OK",
	}, "\n"), "events")
}

// TestMetrics checks the metrics of requests, watches and resources. Requests for unknown paths and
// with unknown methods must not add labels.
func TestMetrics(t *testing.T) {
	log := &lines{failed: true}
	s, err := New(Options{Pods: 3, AuditLog: log})
	check.NoError(t, err)
	defer s.Close()
	get := func(method, path string) string {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(method, "http://localhost"+path, nil))
		return w.Body.String()
	}
	get("GET", "/api/v1/pods")
	get("GET", "/api/v1/pods")
	get("GET", "/api/v1/pods?watch=true&timeoutSeconds=1&resourceVersion=0")
	for _, unknown := range []string{"/a", "/b", "/apis/x/v1/y", "/api/v1/pods/x/z", "/api/v1/secrets/none", "/api/v1/namespaces/a/pods/x/sub1/y", "/api/v1/namespaces/a/pods/x/sub2/y"} {
		get("BREW", unknown)
		get("GET", unknown)
	}
	text := get("GET", "/metrics")
	for _, want := range []string{
		`apiserver_request_total{group="",version="v1",resource="pods",subresource="",verb="LIST",code="200"} 2`,
		`apiserver_request_total{group="",version="v1",resource="pods",subresource="",verb="WATCH",code="200"} 1`,
		`apiserver_request_duration_seconds_sum{group="",version="v1",resource="pods",subresource="",verb="LIST",code="200"} `,
		`apiserver_longrunning_requests{group="",version="v1",resource="pods",verb="WATCH"} 0`,
		`apiserver_resource_objects{group="",resource="pods"} 3`, `apiserver_resource_size_estimate_bytes{group="",resource="pods"} `,
		`apiserver_init_events_total{group="",resource="pods",version="v1"} 3`,
		`apiserver_storage_list_returned_objects_total{group="",resource="pods",version="v1",storage="watchcache"} `,
		"apiserver_audit_error_total 18\n", "process_start_time_seconds 1", `kubernetes_build_info{git_version="v1.`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "apiserver_request_total{"); n > 5 {
		t.Errorf("%d labels of requests in\n%s", n, text)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		name := line[:strings.LastIndexByte(line, ' ')]
		if seen[name] {
			t.Errorf("%s twice", name)
		}
		seen[name] = true
	}
}

// TestMetricsWithoutLock checks that the server holds no lock while it sends the metrics: a client
// that does not read them must not block other requests.
func TestMetricsWithoutLock(t *testing.T) {
	s, err := New(Options{Pods: 3})
	check.NoError(t, err)
	defer s.Close()
	w := &unlocked{httptest.NewRecorder(), &s.recorder.mu}
	for i := range 300 { // more than a buffer
		s.recorder.counts[requestLabels{verb: otherVerb, code: i}] = &requestCount{}
	}
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/metrics", nil))
	check.Equal(t, strings.Contains(w.Body.String(), "apiserver_audit_error_total 0\n"), true, "the metrics were sent")
}

// unlocked is a ResponseWriter that panics if a lock is held while it writes.
type unlocked struct {
	*httptest.ResponseRecorder
	mu *sync.Mutex
}

func (u *unlocked) Write(p []byte) (int, error) {
	if !u.mu.TryLock() {
		panic("the lock is held")
	}
	defer u.mu.Unlock()
	return u.ResponseRecorder.Write(p)
}

// TestAuditLogClosed checks that Close waits for the audit events of open requests, and that the
// server writes no event after Close.
func TestAuditLogClosed(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	log := &slow{entered: entered, release: release}
	s, err := New(Options{AuditLog: log})
	check.NoError(t, err)
	var requests sync.WaitGroup
	requests.Go(func() {
		s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://localhost/healthz", nil))
	})
	<-entered
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = s.Close()
	}()
	select {
	case <-closed:
		t.Error("Close returned while an event was being written")
	case <-time.After(50 * time.Millisecond): // cannot fail a correct server
	}
	close(release)
	<-closed
	requests.Wait()
	s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://localhost/healthz", nil))
	check.Equal(t, log.lines, 1, "events")
}

// slow is a writer that waits for release in each Write.
type slow struct {
	entered, release chan struct{}
	lines            int
}

func (w *slow) Write(p []byte) (int, error) {
	if w.lines++; w.lines == 1 {
		close(w.entered)
	}
	<-w.release
	return len(p), nil
}
