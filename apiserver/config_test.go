package apiserver_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// clientOf returns a client that keeps no connection open.
func clientOf(t *testing.T, cfg *rest.Config) kubernetes.Interface {
	t.Helper()
	if cfg.Transport == nil {
		cfg.Transport = &http.Transport{DisableKeepAlives: true}
	}
	client, err := kubernetes.NewForConfig(cfg)
	check.NoError(t, err)
	return client
}

// TestConfigStarts: Config starts a server that does not listen yet.
func TestConfigStarts(t *testing.T) {
	s, err := apiserver.New(apiserver.Options{Pods: 3})
	check.NoError(t, err)
	list, err := clientOf(t, s.Config()).CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 3 {
		t.Errorf("%d pods, %v", len(list.Items), err)
	}
	check.NoError(t, s.Close())
	if _, err = clientOf(t, s.Config()).CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); !errors.Is(err, apiserver.ErrClosed) {
		t.Errorf("a request with the Config of a closed server: %v", err)
	}
}

// TestConfigCannotStart: requests fail with the error of Start, without a time-out.
func TestConfigCannotStart(t *testing.T) {
	s, err := apiserver.New(apiserver.Options{Listen: "127.0.0.1:-1"})
	check.NoError(t, err)
	defer func() { _ = s.Close() }()
	if _, err = clientOf(t, s.Config()).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "invalid port") {
		t.Errorf("got %v", err)
	}
}

// TestWebPages: a web page that resolves its own name to the server can neither read nor write.
func TestWebPages(t *testing.T) {
	s, err := apiserver.New(apiserver.Options{})
	check.NoError(t, err)
	defer func() { _ = s.Close() }()
	client := clientOf(t, s.Config())
	const namespaces = "/api/v1/namespaces"
	for _, tc := range []struct {
		method, host, origin string
		want                 int
	}{
		{http.MethodGet, "evil.example", "", http.StatusForbidden},
		{http.MethodPost, "evil.example", "http://evil.example", http.StatusForbidden},
		{http.MethodPost, "", "http://evil.example", http.StatusForbidden},
		{http.MethodGet, "localhost", "", http.StatusOK},
	} {
		r, err := http.NewRequestWithContext(t.Context(), tc.method, s.URL()+namespaces, strings.NewReader(`{"metadata":{"name":"evil"}}`))
		check.NoError(t, err)
		r.Host = tc.host
		if tc.origin != "" {
			r.Header.Set("Origin", tc.origin)
		}
		transport := &http.Transport{DisableKeepAlives: true}
		resp, err := transport.RoundTrip(r)
		check.NoError(t, err)
		if resp.Body.Close(); resp.StatusCode != tc.want {
			t.Errorf("%+v: %s", tc, resp.Status)
		}
	}
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), "evil", metav1.GetOptions{}); err == nil {
		t.Error("a web page has created a namespace")
	}
}
