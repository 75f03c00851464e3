package source_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"go.uber.org/goleak"

	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const podList = `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"more","remainingItemCount":3},"items":[` +
	`{"metadata":{"name":"a","namespace":"n","resourceVersion":"5"}},{"metadata":{"name":"b","namespace":"n","resourceVersion":"6"}}]}`

// serve starts a server with handler h, and returns a Source of pods on that server.
func serve(t *testing.T, h http.HandlerFunc, opts source.Options, change ...func(*rest.Config, *source.Resource)) *source.REST {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	cfg, r := &rest.Config{Host: srv.URL}, pods
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	cfg.Transport = tr
	for _, f := range change {
		f(cfg, &r)
	}
	src, err := source.New(cfg, r, opts)
	check.NoError(t, err)
	return src
}

func answer(w http.ResponseWriter, code int, contentType, body string) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(code)
	io.WriteString(w, body)
}

func readAll(t *testing.T, l source.List) (n int) {
	t.Helper()
	for {
		_, err := l.Next()
		if err == io.EOF {
			return n
		}
		check.NoError(t, err)
		n++
	}
}

func TestListRequest(t *testing.T) {
	var got *http.Request
	stats := &source.Stats{}
	src := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", "application/json")
		z := gzip.NewWriter(w)
		io.WriteString(z, podList)
		z.Close()
	}, source.Options{Stats: stats}, func(cfg *rest.Config, r *source.Resource) {
		cfg.Host += "/prefix"
		cfg.UserAgent = "tester/1"
		cfg.BearerToken = "secret"
		r.Namespace = "n"
	})
	l, err := src.List(context.Background(), metav1.ListOptions{
		LabelSelector: "a=b", FieldSelector: "spec.nodeName=x", ResourceVersion: "5", ResourceVersionMatch: metav1.ResourceVersionMatchExact, Limit: 2, Continue: "c"})
	check.NoError(t, err)
	defer l.Close()
	if n := readAll(t, l); n != 2 || l.Encoding() != wire.JSON {
		t.Errorf("%d objects in %s", n, l.Encoding())
	}
	check.Equal(t, l.Meta(), (wire.ListMeta{ResourceVersion: "7", Continue: "more", RemainingItemCount: 3}))
	if got.URL.Path != "/prefix/api/v1/namespaces/n/pods" {
		t.Error(got.URL.Path)
	}
	want := url.Values{"labelSelector": {"a=b"}, "fieldSelector": {"spec.nodeName=x"}, "resourceVersion": {"5"},
		"resourceVersionMatch": {"Exact"}, "limit": {"2"}, "continue": {"c"}}
	if q := got.URL.Query(); q.Encode() != want.Encode() {
		t.Error(q)
	}
	for k, v := range map[string]string{"User-Agent": "tester/1", "Authorization": "Bearer secret",
		"Accept-Encoding": "gzip", "Accept": pods.Accept(false)} {
		check.Equal(t, got.Header.Get(k), v, "%s", k)
	}
	if stats.Requests.Load() != 1 || stats.Lists.Load() != 1 || stats.BodyBytes.Load() != int64(len(podList)) ||
		stats.WireBytes.Load() == 0 || stats.WireBytes.Load() >= stats.BodyBytes.Load() {
		t.Errorf("requests %d, lists %d, %d bytes of %d", stats.Requests.Load(), stats.Lists.Load(), stats.WireBytes.Load(), stats.BodyBytes.Load())
	}
}

func TestWatchRequest(t *testing.T) {
	for _, c := range []struct {
		opts     metav1.ListOptions
		query    string
		encoding string
	}{
		{metav1.ListOptions{ResourceVersion: "9", AllowWatchBookmarks: true, TimeoutSeconds: new(int64(91))},
			"allowWatchBookmarks=true&resourceVersion=9&timeoutSeconds=91&watch=true", "identity"},
		{metav1.ListOptions{ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, SendInitialEvents: new(true)},
			"resourceVersionMatch=NotOlderThan&sendInitialEvents=true&watch=true", "gzip"},
	} {
		var got *http.Request
		src := serve(t, func(w http.ResponseWriter, r *http.Request) {
			got = r
			answer(w, 200, "application/json", `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}}`+"\n")
		}, source.Options{})
		watch, err := src.Watch(context.Background(), c.opts)
		check.NoError(t, err)
		ev, err := watch.Next()
		if err != nil || ev.Type != wire.Added {
			t.Errorf("%v, %v", ev, err)
		}
		if _, err := watch.Next(); err != io.EOF {
			t.Errorf("at the end: %v", err)
		}
		watch.Close()
		if got.URL.RawQuery != c.query || got.Header.Get("Accept-Encoding") != c.encoding {
			t.Errorf("%s, %s", got.URL.RawQuery, got.Header.Get("Accept-Encoding"))
		}
	}
}

// TestDisableCompression checks that no request asks for gzip if the rest.Config has
// DisableCompression, including the requests of Sources that Of returns.
func TestDisableCompression(t *testing.T) {
	for disable, want := range map[bool]string{false: "gzip", true: "identity"} {
		var got string
		src := serve(t, func(w http.ResponseWriter, r *http.Request) {
			got = r.Header.Get("Accept-Encoding")
			answer(w, 200, "application/json", podList)
		}, source.Options{}, func(cfg *rest.Config, _ *source.Resource) { cfg.DisableCompression = disable })
		other, err := src.Of(pods)
		check.NoError(t, err)
		for _, s := range []*source.REST{src, other} {
			l, err := s.List(context.Background(), metav1.ListOptions{})
			check.NoError(t, err)
			l.Close()
			check.Equal(t, got, want, "DisableCompression=%v", disable)
		}
	}
}

func TestErrorAnswers(t *testing.T) {
	status := `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no pods for you","reason":"Forbidden","code":403,"details":{}}`
	tooMany := strings.NewReplacer("403", "429", "Forbidden", "TooManyRequests").Replace(status)
	for _, c := range []struct {
		name, contentType, body string
		code                    int
		retryAfter              string
		is                      func(error) bool
		message                 string
		seconds                 int
	}{
		{"status", "application/json", status, 403, "", apierrors.IsForbidden, "no pods for you", 0},
		{"retry after", "application/json", tooMany,
			429, "7", apierrors.IsTooManyRequests, "no pods for you", 7},
		{"proxy", "text/html", "<html>" + strings.Repeat("x", 1<<20), 502, "", apierrors.IsInternalError,
			"LIST /api/v1/pods: 502 Bad Gateway (text/html, not a Kubernetes Status)", 0},
		{"plain 404", "text/plain; charset=utf-8", "404 page not found", 404, "", apierrors.IsNotFound,
			"LIST /api/v1/pods: 404 Not Found (text/plain, not a Kubernetes Status)", 0},
		{"plain 410", "text/plain", "gone", 410, "", apierrors.IsGone,
			"LIST /api/v1/pods: 410 Gone (text/plain, not a Kubernetes Status)", 0},
		{"plain 406", "text/plain", "no", 406, "", apierrors.IsNotAcceptable,
			"LIST /api/v1/pods: 406 Not Acceptable (text/plain, not a Kubernetes Status)", 0},
		{"not a status", "application/json", `{"error":"x"}`, 503, "3", apierrors.IsServiceUnavailable,
			"LIST /api/v1/pods: 503 Service Unavailable (application/json, not a Kubernetes Status)", 3},
		{"nothing", "", "", 401, "soon", apierrors.IsUnauthorized,
			"LIST /api/v1/pods: 401 Unauthorized (no content type, not a Kubernetes Status)", 0},
		{"retry after more seconds than a Status can have", "application/json", tooMany,
			429, "4294967296", apierrors.IsTooManyRequests, "no pods for you", math.MaxInt32},
		{"retry after more seconds than 64 bits can have", "application/json", tooMany,
			429, "99999999999999999999", apierrors.IsTooManyRequests, "no pods for you", math.MaxInt32},
		{"retry after a distant date", "application/json", tooMany,
			429, "Fri, 31 Dec 9999 23:59:59 GMT", apierrors.IsTooManyRequests, "no pods for you", math.MaxInt32},
		{"retry after a time in the past", "application/json", tooMany,
			429, "-4294967297", apierrors.IsTooManyRequests, "no pods for you", 0},
		{"retry after a date in the past", "application/json", tooMany,
			429, "Mon, 01 Jan 0001 00:00:00 GMT", apierrors.IsTooManyRequests, "no pods for you", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if c.retryAfter != "" {
					w.Header().Set("Retry-After", c.retryAfter)
				}
				if c.contentType == "" {
					w.Header()["Content-Type"] = nil
					w.WriteHeader(c.code)
					return
				}
				answer(w, c.code, c.contentType, c.body)
			}, source.Options{})
			_, err := src.List(context.Background(), metav1.ListOptions{})
			if !c.is(err) || err.Error() != c.message {
				t.Errorf("%v", err)
			}
			if seconds, _ := apierrors.SuggestsClientDelay(err); seconds != c.seconds {
				t.Errorf("retry after %d", seconds)
			}
		})
	}
}

func TestUnreadableAnswers(t *testing.T) {
	for _, c := range []struct{ contentType, encoding, want string }{
		{"text/html", "", "text/html"}, {"application/cbor", "", "application/cbor"}, {"application/json", "br", "br"},
	} {
		src := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if c.encoding != "" {
				w.Header().Set("Content-Encoding", c.encoding)
			}
			answer(w, 200, c.contentType, podList)
		}, source.Options{})
		_, err := src.List(context.Background(), metav1.ListOptions{})
		if !errors.Is(err, source.ErrMediaType) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "/api/v1/pods") {
			t.Errorf("%v", err)
		}
		if _, err := src.Watch(context.Background(), metav1.ListOptions{}); !errors.Is(err, source.ErrMediaType) {
			t.Errorf("%v", err)
		}
	}
}

// TestNoContentType checks responses without a content type. The encoding of a list or a Status is
// detected from the body, and a watch is read as JSON.
func TestNoContentType(t *testing.T) {
	var list bytes.Buffer
	check.NoError(t, wire.NewListWriter(&list, wire.Protobuf, wire.TypeMeta{APIVersion: "v1", Kind: "PodList"}, wire.ListMeta{ResourceVersion: "7"}, 0).Close())
	raw, err := (&metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Message: "no", Code: 403}).Marshal()
	check.NoError(t, err)
	status := string(wire.AppendObject(nil, wire.Protobuf, wire.TypeMeta{APIVersion: "v1", Kind: "Status"}, raw))
	var code int
	var body string
	src := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = nil
		w.WriteHeader(code)
		io.WriteString(w, body)
	}, source.Options{})
	code = 200
	for text, enc := range map[string]wire.Encoding{podList: wire.JSON, "\n\r\t " + podList: wire.JSON, list.String(): wire.Protobuf} {
		body = text
		l, err := src.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Errorf("%.20q: %v", text, err)
			continue
		}
		if readAll(t, l); l.Encoding() != enc || l.Meta().ResourceVersion != "7" {
			t.Errorf("%.20q: %s, %+v", text, l.Encoding(), l.Meta())
		}
		l.Close()
	}
	for _, body = range []string{"<html>", ""} {
		if _, err := src.List(t.Context(), metav1.ListOptions{}); !errors.Is(err, source.ErrMediaType) {
			t.Errorf("%q: %v", body, err)
		}
	}
	body = `{"type":"ADDED","object":{"metadata":{"name":"a"}}}`
	w, err := src.Watch(t.Context(), metav1.ListOptions{})
	check.NoError(t, err)
	if _, err := w.Next(); err != nil || w.Encoding() != wire.JSON {
		t.Errorf("%v in %s", err, w.Encoding())
	}
	w.Close()
	code = 403
	for _, body = range []string{`{"kind":"Status","status":"Failure","message":"no","reason":"Forbidden","code":403}`, status} {
		if _, err := src.List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) || err.Error() != "no" {
			t.Errorf("%.20q: %v", body, err)
		}
	}
}

func TestNoServer(t *testing.T) {
	src, err := source.New(&rest.Config{Host: "127.0.0.1:1"}, pods, source.Options{})
	check.NoError(t, err)
	_, err = src.Watch(context.Background(), metav1.ListOptions{})
	var own *source.RequestError
	if !errors.Is(err, syscall.ECONNREFUSED) || !errors.As(err, &own) || own.Method != "WATCH" || own.Path != "/api/v1/pods" {
		t.Errorf("%v", err)
	}
	if strings.Count(err.Error(), "/api/v1/pods") != 1 {
		t.Errorf("%v", err)
	}
}

func TestBadConfig(t *testing.T) {
	if _, err := source.New(&rest.Config{Host: "http://[bad"}, pods, source.Options{}); err == nil {
		t.Error("a bad host is taken")
	}
	if _, err := source.New(&rest.Config{}, source.Resource{}, source.Options{}); !errors.Is(err, source.ErrResource) {
		t.Errorf("%v", err)
	}
	if _, err := source.New(&rest.Config{Host: "https://x", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("no")}}, pods, source.Options{}); err == nil {
		t.Error("a bad CA is taken")
	}
}

func TestServerVersion(t *testing.T) {
	requests, body := 0, `{"major":"1","minor":"33+","gitVersion":"v1.33.1-eks"}`
	code := 500
	src := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests++
		if r.URL.Path != "/version" {
			t.Error(r.URL.Path)
		}
		answer(w, code, "application/json", body)
	}, source.Options{})
	if _, _, err := src.ServerVersion(context.Background()); !apierrors.IsInternalError(err) {
		t.Errorf("%v", err)
	}
	code = 200
	for _, body = range []string{`{"major":"","minor":""}`, `{"major":"1"}`, "<html>", ""} {
		_, _, err := src.ServerVersion(context.Background())
		var unanswered *source.RequestError
		if !errors.Is(err, wire.ErrMalformed) || errors.As(err, &unanswered) || !strings.HasPrefix(err.Error(), "GET /version: ") {
			t.Errorf("of %q: %v", body, err)
		}
	}
	body = `{"major":"1","minor":"33+"}`
	for range 2 {
		major, minor, err := src.ServerVersion(context.Background())
		if major != 1 || minor != 33 || err != nil {
			t.Error(major, minor, err)
		}
	}
	check.Equal(t, requests, 6, "requests")
}
