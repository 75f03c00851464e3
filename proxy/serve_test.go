package proxy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestWhoAnswers checks which reads the proxy answers from the cache, and that it forwards all
// others.
func TestWhoAnswers(t *testing.T) {
	t.Parallel()
	u, tp := startReady(t, apiserver.Options{Pods: 30}, Options{Resources: []string{"pods"}, TrustCache: []string{"nodes"}})
	var list corev1.PodList
	if code, body := tp.get("jane", "/api/v1/pods?resourceVersion=0"); code != http.StatusOK || json.Unmarshal([]byte(body), &list) != nil || len(list.Items) != 30 {
		t.Fatalf("%d: %.300s", code, body)
	}
	pod := "/api/v1/namespaces/" + list.Items[0].Namespace + "/pods/" + list.Items[0].Name
	rv := list.ResourceVersion
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
	tests := []struct {
		path     string
		accept   string
		upstream bool
	}{
		{path: "/api/v1/pods?resourceVersion=0"},
		{path: "/api/v1/pods?resourceVersion=0&limit=5"},
		{path: "/api/v1/pods?resourceVersion=" + rv},
		{path: "/api/v1/pods?resourceVersion=" + rv + "&resourceVersionMatch=Exact"},
		{path: "/api/v1/pods?resourceVersion=1&resourceVersionMatch=Exact", upstream: true},
		{path: "/api/v1/pods?resourceVersion=0&labelSelector=app%3Dx"},
		{path: "/api/v1/pods?resourceVersion=0&fieldSelector=spec.nodeName%3Dx"},
		{path: "/api/v1/pods?resourceVersion=0&fieldSelector=spec.nonsense%3Dx", upstream: true},
		{path: "/api/v1/pods?resourceVersion=0&labelSelector=%21%21", upstream: true},
		{path: "/api/v1/pods?resourceVersion=zero", upstream: true},
		{path: "/api/v1/pods", upstream: true},
		{path: "/api/v1/pods?limit=5", upstream: true},
		{path: "/api/v1/pods?resourceVersion=0", accept: table, upstream: true},
		{path: "/api/v1/pods?resourceVersion=0", accept: "application/yaml", upstream: true},
		{path: "/api/v1/pods?resourceVersion=0", accept: strings.Replace(table, "Table", `"Table"`, 1), upstream: true},
		{path: "/api/v1/pods?resourceVersion=0", accept: `application/json;as="PartialObjectMetadataList";v=v1;g=meta.k8s.io,application/json`, upstream: true},
		{path: "/api/v1/pods?resourceVersion=0", accept: `application/json;as=PartialObjectMetadataList;v="v1";g=meta.k8s.io,application/json`, upstream: true},
		{path: "/api/v1/pods?resourceVersion=0", accept: "application/vnd.kubernetes.protobuf"},
		{path: "/api/v1/pods?resourceVersion=0", accept: "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"},
		{path: pod + "?resourceVersion=0"},
		{path: pod, upstream: true},
		{path: pod + "/status?resourceVersion=0", upstream: true},
		{path: "/api/v1/pods?watch=true&timeoutSeconds=1&resourceVersion=0"},
		{path: "/api/v1/pods?watch=true&timeoutSeconds=1", upstream: true},
		{path: "/api/v1/pods?watch=true&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", upstream: true},
		{path: "/api/v1/pods?watch=true&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0"},
		// This resourceVersion is older than the change log.
		{path: "/api/v1/pods?watch=true&timeoutSeconds=1&resourceVersion=1", upstream: true},
		{path: "/api/v1/watch/pods?timeoutSeconds=1&resourceVersion=0", upstream: true},
		{path: "/api/v1/nodes?resourceVersion=0", upstream: true}, // not cached
		{path: "/api/v1", upstream: true},
		{path: "/version", upstream: true},
	}
	for _, tt := range tests {
		u.forwarded("")
		accept := tt.accept
		if accept == "" {
			accept = "application/json"
		}
		code, body := tp.get("jane", tt.path, "Accept", accept)
		if passed := u.forwarded(strings.SplitN(tt.path, "?", 2)[0]); (len(passed) > 0) != tt.upstream {
			t.Errorf("%s (%s): %d requests upstream, answered %d %.200s", tt.path, accept, len(passed), code, body)
		}
	}
}

// TestCachedConsistency checks that the proxy also answers reads without resourceVersion from the
// cache for resources in Options.TrustCache.
func TestCachedConsistency(t *testing.T) {
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}, TrustCache: []string{"pods"}})
	for _, path := range []string{
		"/api/v1/pods", "/api/v1/pods?watch=true&timeoutSeconds=1",
		"/api/v1/pods?watch=true&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
	} {
		code, body := tp.get("jane", path)
		if passed := u.forwarded("/api/v1/pods"); code != http.StatusOK || len(passed) > 0 {
			t.Errorf("%s: %d, %d upstream", path, code, len(passed))
		}
		if strings.Contains(path, "sendInitialEvents") && !strings.Contains(body, "initial-events-end") {
			t.Errorf("no end of the initial events: %.300s", body)
		}
	}
}

// TestAuthorized checks that a review contains every part of a read. Reads of denied or unknown
// callers are forwarded, so that the upstream answers them.
func TestAuthorized(t *testing.T) {
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}})
	u.deny(func(s authorizationv1.SubjectAccessReviewSpec) bool {
		return s.User == "denied" || s.User == "jane" && s.ResourceAttributes.LabelSelector == nil
	})
	u.reviews = nil
	u.forwarded("")
	tp.get("jane", "/api/v1/namespaces/n/pods?resourceVersion=0&labelSelector=app%3Dx&fieldSelector=spec.nodeName%3Dn1%2Cmetadata.name%3Dp")
	if len(u.reviews) != 2 || len(u.forwarded("/api/v1/namespaces")) != 0 {
		t.Fatalf("%d reviews", len(u.reviews))
	}
	if whole := u.reviews[0].ResourceAttributes; whole.Name != "" || whole.LabelSelector != nil || whole.FieldSelector != nil {
		t.Errorf("asked first about %+v", whole)
	}
	r := u.reviews[1].ResourceAttributes
	if u.reviews[1].User != "jane" || u.reviews[1].UID != "uid-jane" || r.Verb != "list" || r.Resource != "pods" || r.Namespace != "n" ||
		r.Name != "p" || r.Version != "v1" ||
		len(r.LabelSelector.Requirements) != 1 || len(r.FieldSelector.Requirements) != 2 {
		t.Errorf("asked about %+v", u.reviews[1])
	}
	u.reviews = nil
	for i := range 10 {
		tp.get("joan", fmt.Sprintf("/api/v1/namespaces/n/pods?resourceVersion=0&labelSelector=app%%3Dx%d", i))
	}
	// All of these reviews are the same. With a cache of answers the proxy would send one of them, but
	// in these tests cached answers expire immediately.
	for _, review := range u.reviews {
		if len(u.reviews) != 10 || review.ResourceAttributes.LabelSelector != nil {
			t.Errorf("of who may read everything: %d reviews, %+v", len(u.reviews), review)
		}
	}
	for _, user := range []string{"denied", "!"} {
		u.forwarded("")
		u.set(func() { u.expired["!"] = true })
		tp.get(user, "/api/v1/pods?resourceVersion=0")
		passed := u.forwarded("/api/v1/pods")
		if len(passed) != 1 || passed[0].header.Get("Authorization") != "Bearer token-"+user {
			t.Errorf("%s: %v", user, passed)
		}
	}
	resp := tp.open(tp.client, http.MethodGet, "/api/v1/pods?resourceVersion=0")
	if passed := u.forwarded("/api/v1/pods"); len(passed) != 1 || passed[0].header.Get("Authorization") != "" {
		t.Errorf("without credentials: %d, %v", resp.StatusCode, passed)
	}
}

// watch opens a watch and returns its lines.
func (tp *testProxy) watch(user, path string, headers ...string) <-chan string {
	tp.t.Helper()
	resp := tp.open(tp.client, http.MethodGet, path, append(headers, "Authorization", "Bearer token-"+user)...)
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			lines <- s.Text()
		}
	}()
	tp.t.Cleanup(func() {
		resp.Body.Close()
		for range lines {
		}
	})
	return lines
}

// next returns the next line that contains text.
func (tp *testProxy) next(lines <-chan string, text string) string {
	tp.t.Helper()
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				tp.t.Fatalf("the watch ended before %q", text)
			}
			if strings.Contains(line, text) {
				return line
			}
		case <-tp.ctx.Done():
			tp.t.Fatalf("no %q", text)
		}
	}
}

// writer returns a client that connects to the upstream directly.
func (u *fakeUpstream) writer() kubernetes.Interface {
	u.t.Helper()
	client, err := kubernetes.NewForConfig(u.config)
	check.NoError(u.t, err)
	return client
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

// TestOneReviewOfRefused checks a WATCH that the proxy forwards because its caller is denied or
// unknown. The proxy reviews the token of the WATCH at most once.
func TestOneReviewOfRefused(t *testing.T) {
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}})
	u.deny(func(s authorizationv1.SubjectAccessReviewSpec) bool { return s.User == "denied" })
	for _, path := range []string{"/api/v1/pods?watch=true&resourceVersion=0&timeoutSeconds=1", "/api/v1/nodes?watch=true&resourceVersion=0&timeoutSeconds=1"} {
		for _, token := range []string{"Bearer token-denied", "Bearer junk"} {
			u.set(func() { u.requests = nil })
			tp.open(tp.client, http.MethodGet, path, "Authorization", token)
			u.mu.Lock()
			reviews := 0
			for _, q := range u.requests {
				if strings.HasSuffix(q.uri, "/tokenreviews") {
					reviews++
				}
			}
			u.mu.Unlock()
			if reviews > 1 {
				t.Errorf("%s of %s: %d reviews", path, token, reviews)
			}
		}
	}
}

// TestNewerUpstream checks an upstream that knows fields that the proxy's Go types lack. These
// fields must not be lost. The proxy must forward reads that accept only JSON, because it would
// have to encode the JSON from its Go types. It can answer other reads with the upstream's protobuf
// bytes.
func TestNewerUpstream(t *testing.T) {
	u, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}})
	tp.server.mirror.All()[0].Serving().Info.UnknownFields = true
	const protobuf = "application/vnd.kubernetes.protobuf"
	for accept, upstream := range map[string]bool{
		"application/json": true, "": true, protobuf: false, protobuf + ",application/json": false,
		"application/json," + protobuf: true, protobuf + "," + protobuf + ";q=0.5": false,
		// These start with protobuf but select JSON.
		protobuf + "x,application/json": true, protobuf + ";stream=x,application/json": true, protobuf + ";g=x,application/json": true,
		protobuf + ";as=PartialObjectMetadataList,application/json":                    true,
		protobuf + ";as=Table;g=meta.k8s.io;v=v1,application/json":                     true,
		protobuf + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v2,application/json": true,
		protobuf + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json": false,
		"text/html," + protobuf: false,
	} {
		tp.get("jane", "/api/v1/pods?resourceVersion=0", "Accept", accept)
		if passed := u.forwarded("/api/v1/pods"); (len(passed) > 0) != upstream {
			t.Errorf("%s: %d upstream", accept, len(passed))
		}
	}
}

// TestQuietResource reads a resource that does not change, at the resourceVersion of a change of a
// different resource. The cache of the first resource has not reached that resourceVersion. The
// proxy forwards the read. If the upstream does not answer, the client gets kube-apiserver's error
// for a resourceVersion that is too large.
func TestQuietResource(t *testing.T) {
	t.Parallel()
	u, tp := startReady(t, apiserver.Options{}, Options{Resources: []string{"nodes"}, Authentication: Authentication{TokenTTL: deadline, AllowTTL: deadline, DenyTTL: deadline}})
	made, err := u.writerPast().CoreV1().Pods("default").Create(tp.ctx, pod("elsewhere"), metav1.CreateOptions{})
	check.NoError(t, err)
	at := "/api/v1/nodes?resourceVersion=" + made.ResourceVersion
	for _, path := range []string{
		at, at + "&resourceVersionMatch=NotOlderThan", at + "&resourceVersionMatch=Exact",
		at + "&watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
	} {
		u.forwarded("")
		if code, body := tp.get("jane", path); code != http.StatusOK || len(u.forwarded("/api/v1/nodes")) != 1 {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	u.setHanging(true)
	defer u.setHanging(false)
	code, body := tp.get("jane", at)
	if code != http.StatusGatewayTimeout || !strings.Contains(body, `"ResourceVersionTooLarge"`) || !strings.Contains(body, `"retryAfterSeconds"`) {
		t.Errorf("while the upstream is stalled: %d %s", code, body)
	}
}

// TestManyClients checks that the proxy sends one LIST and one WATCH upstream, however many clients
// list and watch.
func TestManyClients(t *testing.T) {
	u, tp := startReady(t, apiserver.Options{Pods: 20}, Options{Resources: []string{"pods"}, Authentication: Authentication{TokenTTL: deadline, AllowTTL: deadline, DenyTTL: deadline}})
	u.reviews = nil
	var all []<-chan string
	for range 100 {
		tp.want(http.StatusOK, "jane", "/api/v1/pods?resourceVersion=0")
		all = append(all, tp.watch("jane", "/api/v1/pods?watch=true&resourceVersion=0"))
	}
	must(t)(u.writerPast().CoreV1().Pods("default").Create(tp.ctx, pod("new"), metav1.CreateOptions{}))
	for _, lines := range all {
		tp.next(lines, `"new"`)
	}
	u.mu.Lock()
	reviews := len(u.reviews)
	u.mu.Unlock()
	// One review is for the verb list, the other for watch.
	if passed := u.forwarded("/api/v1/pods"); len(passed) != 0 || reviews != 2 {
		t.Errorf("%d requests upstream, %d reviews", len(passed), reviews)
	}
	st := &tp.server.mirror.Stats
	if st.Lists.Load() != 1 || st.Watches.Load() != 1 {
		t.Errorf("%d lists and %d watches upstream", st.Lists.Load(), st.Watches.Load())
	}
}
