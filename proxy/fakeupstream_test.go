package proxy

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/proxy/internal/review"
)

// asked is a request that the upstream received.
type asked struct {
	method, uri string
	header      http.Header
}

// fakeUpstream is an embedded API server with tokens and permissions. The token of a user is
// "token-" and the name. A user can have further tokens: the first token, followed by "~" and any
// text.
type fakeUpstream struct {
	*apiserver.Server
	t      *testing.T
	faults *apiserver.Faults
	tls    *httptest.Server
	config *rest.Config

	mu      sync.Mutex
	down    bool
	silent  bool          // answer callers' requests with 404
	hangs   chan struct{} // not nil: requests get no answer until it is closed
	expired map[string]bool
	denied  func(authorizationv1.SubjectAccessReviewSpec) bool
	// warns contains the warnings for LISTs and WATCHes, by path.
	warns map[string]string
	// schemas contains the hashes in the upstream's OpenAPI, by group and version. nil: the upstream
	// has no OpenAPI.
	schemas map[string]string
	// versions contains the versions that the upstream returns in turn. Empty: its own version.
	versions     []string
	toldVersions int
	// services answers requests for the aggregation API. nil: there is no aggregator.
	services http.HandlerFunc
	// fault, if not nil, handles reviews in place of the usual answers.
	fault func(w http.ResponseWriter, r *http.Request)
	// forbidden is the path for which the upstream refuses requests.
	forbidden string
	// missing is the path of a resource that the upstream does not serve any more.
	missing string
	// failing is the path that the upstream answers with 500.
	failing string
	// blockedPath is the path of a resource. The upstream does not answer the proxy's own requests for
	// it until the path is changed.
	blockedPath string
	unblocked   chan struct{} // closed when blockedPath changes
	kept        int           // number of requests that blockedPath blocked
	requests    []asked
	reviews     []authorizationv1.SubjectAccessReviewSpec
}

const ownToken = "token-proxy"

func startUpstream(t *testing.T, o apiserver.Options) *fakeUpstream {
	t.Helper()
	u := &fakeUpstream{t: t, faults: &apiserver.Faults{}, expired: map[string]bool{}}
	o.Faults = u.faults
	var err error
	o.AnyNamespace = true
	if u.Server, err = apiserver.New(o); err != nil {
		t.Fatal(err)
	}
	u.tls = httptest.NewTLSServer(u)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: u.tls.Certificate().Raw})
	u.config = &rest.Config{Host: u.tls.URL, BearerToken: ownToken, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
	t.Cleanup(func() {
		_ = u.Close()
		u.tls.CloseClientConnections()
		u.tls.Close()
	})
	return u
}

// ServeHTTP records the request, answers reviews itself, and applies the configured faults.
func (u *fakeUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	down, hangs, silent, fault := u.down, u.hangs, u.silent && !ofProxy(r.Header), u.fault
	services, warning, schemas := u.services, u.warns[r.URL.Path], maps.Clone(u.schemas)
	missing := u.missing != "" && r.URL.Path == u.missing
	unblocked, forbidden, failing := u.unblocked, u.forbidden != "" && r.URL.Path == u.forbidden, u.failing != "" && r.URL.Path == u.failing
	if unblocked != nil && r.URL.Path == u.blockedPath && ofProxy(r.Header) {
		u.kept++
	} else {
		unblocked = nil
	}
	version := ""
	if r.URL.Path == "/version" {
		if u.toldVersions++; len(u.versions) > 0 {
			version = u.versions[u.toldVersions%len(u.versions)]
		}
	}
	u.requests = append(u.requests, asked{r.Method, r.URL.RequestURI(), r.Header.Clone()})
	u.mu.Unlock()
	if hangs != nil {
		select {
		case <-hangs:
		case <-r.Context().Done():
		}
	}
	if unblocked != nil {
		select {
		case <-unblocked:
		case <-r.Context().Done():
		}
	}
	switch {
	case forbidden:
		writeStatus(w, http.StatusForbidden)
	case missing:
		http.NotFound(w, r)
	case failing:
		writeStatus(w, http.StatusInternalServerError)
	case down:
		panic(http.ErrAbortHandler)
	case silent:
		http.NotFound(w, r)
	case fault != nil && strings.HasSuffix(r.URL.Path, "reviews"):
		fault(w, r)
	case version != "":
		u.serveVersion(w, version)
	case schemas != nil && r.URL.Path == "/openapi/v3":
		paths := map[string]any{}
		for path, hash := range schemas {
			paths[path] = map[string]any{"serverRelativeURL": "/openapi/v3/" + path + "?hash=" + hash}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"paths": paths})
	case services != nil && strings.HasPrefix(r.URL.Path, "/apis/apiregistration.k8s.io"):
		services(w, r)
	case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
		u.review(w, r, u.token)
	case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
		u.review(w, r, u.access)
	default:
		if warning != "" {
			w.Header().Add("Warning", warning)
		}
		u.Server.ServeHTTP(w, r)
	}
}

// warn makes the upstream send a warning with each response for a path.
func (u *fakeUpstream) warn(path, text string) {
	u.set(func() { u.warns = map[string]string{path: text} })
}

// setDown makes the upstream break every connection, or serve again.
func (u *fakeUpstream) setDown(down bool) {
	u.mu.Lock()
	u.down = down
	u.mu.Unlock()
	if down {
		u.tls.CloseClientConnections()
	}
}

// setFault sets the handler of reviews; nil restores the usual answers.
func (u *fakeUpstream) setFault(fault func(w http.ResponseWriter, r *http.Request)) {
	u.set(func() { u.fault = fault })
}

// refuseReviews makes the upstream answer every review with an error Status with this code.
func (u *fakeUpstream) refuseReviews(code int) {
	u.setFault(func(w http.ResponseWriter, _ *http.Request) {
		if code == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1") // client-go waits for this time, and retries
		}
		writeStatus(w, code)
	})
}

// upgradeUntil is like upgrade. Each upgraded connection stays silent until over is closed.
func (u *fakeUpstream) upgradeUntil(over <-chan struct{}) {
	u.upgrade(func(net.Conn) { <-over })
}

// upgrade makes the upstream upgrade every request that asks for it and whose path ends in
// "reviews", because faults apply to these paths. For each upgraded connection it calls the given
// function (then), and closes the connection when the function returns. Until the fault changes,
// the upstream refuses all reviews with 403.
func (u *fakeUpstream) upgrade(then func(conn net.Conn)) {
	u.setFault(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			writeStatus(w, http.StatusForbidden)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		then(conn)
	})
}

// writeStatus answers with an error Status.
func writeStatus(w http.ResponseWriter, code int) {
	status := metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Message: "not now"}
	status.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Status"})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(status)
}

// aggregate gives the upstream an aggregator. The function answer returns the status code for the
// APIService with the given name. If the code is 200, answer also returns the service that serves
// the group and version. An empty service means the API server itself.
func (u *fakeUpstream) aggregate(answer func(name string) (code int, service string)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.services = func(w http.ResponseWriter, r *http.Request) {
		name, one := strings.CutPrefix(r.URL.Path, "/apis/apiregistration.k8s.io/v1/apiservices/")
		object := map[string]any{"kind": "APIGroup", "apiVersion": "v1", "name": "apiregistration.k8s.io"}
		if one {
			code, service := answer(name)
			if code != http.StatusOK {
				writeStatus(w, code)
				return
			}
			spec := map[string]any{}
			if service != "" {
				spec["service"] = map[string]any{"name": service}
			}
			object = map[string]any{
				"kind": "APIService", "apiVersion": "apiregistration.k8s.io/v1", "metadata": map[string]any{"name": name}, "spec": spec,
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(object)
	}
}

// setHanging makes the upstream receive requests without answering them, or answer the requests
// that wait.
func (u *fakeUpstream) setHanging(hanging bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if hanging {
		u.hangs = make(chan struct{})
		return
	}
	close(u.hangs)
	u.hangs = nil
}

func (u *fakeUpstream) review(w http.ResponseWriter, r *http.Request, answer func(runtime.Object)) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer(object)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(object)
}

func (u *fakeUpstream) token(o runtime.Object) {
	review := o.(*authenticationv1.TokenReview)
	review.SetGroupVersionKind(authenticationv1.SchemeGroupVersion.WithKind("TokenReview"))
	name, ok := strings.CutPrefix(review.Spec.Token, "token-")
	u.mu.Lock()
	defer u.mu.Unlock()
	expired := u.expired[name]
	name, _, _ = strings.Cut(name, "~")
	if ok && !expired {
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: name, UID: "uid-" + name}}
	}
}

func (u *fakeUpstream) access(o runtime.Object) {
	review := o.(*authorizationv1.SubjectAccessReview)
	review.SetGroupVersionKind(authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"))
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reviews = append(u.reviews, review.Spec)
	review.Status.Allowed = u.denied == nil || !u.denied(review.Spec)
}

// deny sets the function that reports whether a review is denied.
func (u *fakeUpstream) deny(f func(authorizationv1.SubjectAccessReviewSpec) bool) {
	u.set(func() { u.denied = f })
}

// ofProxy reports whether a request is the proxy's own, not one of a caller.
func ofProxy(h http.Header) bool {
	return h.Get("Authorization") == "Bearer "+ownToken && !review.HasImpersonation(h)
}

// forwarded returns the callers' requests with this path prefix since the last call. It does not
// return the proxy's own requests.
func (u *fakeUpstream) forwarded(prefix string) (out []asked) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, q := range u.requests {
		if !ofProxy(q.header) && strings.HasPrefix(q.uri, prefix) {
			out = append(out, q)
		}
	}
	u.requests = nil
	return out
}

// wantForwarded reports an error unless exactly n requests with this prefix were forwarded since
// the last call, see forwarded.
func (u *fakeUpstream) wantForwarded(n int, prefix string) {
	u.t.Helper()
	if got := u.forwarded(prefix); len(got) != n {
		u.t.Errorf("%d requests to %s were forwarded, want %d: %.500v", len(got), prefix, n, got)
	}
}

// set calls change with the upstream's lock held.
func (u *fakeUpstream) set(change func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	change()
}

// writerPast returns a client of the upstream that works while the upstream is down.
func (u *fakeUpstream) writerPast() kubernetes.Interface {
	u.t.Helper()
	cfg := &rest.Config{Host: "http://past", QPS: -1, Transport: past{u.Server}}
	client, err := kubernetes.NewForConfig(cfg)
	check.NoError(u.t, err)
	return client
}

// past is a transport that calls a handler directly, without a network.
type past struct{ http.Handler }

func (p past) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w.Result(), nil
}
