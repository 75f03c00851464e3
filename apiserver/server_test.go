package apiserver_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestLoopback checks a LIST and a WATCH over TCP.
func TestLoopback(t *testing.T) {
	s, err := apiserver.New(apiserver.Options{Pods: 20, Churn: 100})
	check.NoError(t, err)
	check.Equal(t, s.URL(), "", "URL before Start")
	check.NoError(t, s.Start())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	cfg := s.Config()
	cfg.Transport = transport
	client, err := kubernetes.NewForConfig(cfg)
	check.NoError(t, err)
	w, err := client.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{ResourceVersion: fmt.Sprint(s.ResourceVersion())})
	check.NoError(t, err)
	for range 20 { // the churn is visible
		if e, ok := <-w.ResultChan(); !ok {
			t.Fatal("the watch ended")
		} else if _, ok := e.Object.(*corev1.Pod); !ok {
			t.Fatalf("%T", e.Object)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	for range w.ResultChan() { // ends when the server closes
	}
	check.ErrorIs(t, s.Start(), apiserver.ErrClosed, "Start of a closed server")
	if err := s.Close(); err != nil {
		t.Errorf("Close again: %v", err)
	}
}

func TestListenFails(t *testing.T) {
	s, err := apiserver.New(apiserver.Options{Listen: "127.0.0.1:-1"})
	check.NoError(t, err)
	defer func() { _ = s.Close() }()
	if err := s.Run(context.Background()); err == nil {
		t.Error("no error")
	}
	if _, err = clientOf(t, s.Config()).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "invalid port") {
		t.Errorf("a request with the Config of a server that cannot start: %v", err)
	}
}

// TestSeed checks that the churn makes the configured number of writes per second and replaces only
// some of the simulated pods. The number of pods must not change, and all pods must be running.
func TestSeed(t *testing.T) {
	withTestServer(t, apiserver.Options{Pods: 1000, Seed: 7, Churn: 20}, func(t *testing.T, ts *testServer) {
		before := ts.server.ResourceVersion()
		list := func() map[string]*corev1.Pod {
			pods, err := ts.protobuf.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
			check.NoError(t, err)
			out := map[string]*corev1.Pod{}
			for i := range pods.Items {
				out[pods.Items[i].Namespace+"/"+pods.Items[i].Name] = &pods.Items[i]
			}
			return out
		}
		old := list()
		time.Sleep(100 * time.Second) // in the bubble's time
		ts.server.StopChurn()
		writes := ts.server.ResourceVersion() - before
		if writes < 2000 || writes > 2200 { // a replacement needs three writes
			t.Errorf("%d writes in 100 s at 20/s", writes)
		}
		now, same := list(), 0
		for key, pod := range now {
			if old[key] != nil {
				same++
			}
			check.Equal(t, pod.Status.Phase, corev1.PodRunning, "%s", key)
		}
		if len(old) != 1000 || len(now) != 1000 || same > 990 || same < 900 {
			t.Errorf("%d pods, then %d, of them %d the same", len(old), len(now), same)
		}
	})
}

// TestChurnIsReproducible checks that the churns of two servers with the same seed create the same
// new pods.
func TestChurnIsReproducible(t *testing.T) {
	pods := func() (ids []string) {
		withTestServer(t, apiserver.Options{Pods: 100, Seed: 7, Churn: 100}, func(t *testing.T, ts *testServer) {
			time.Sleep(20*time.Second + 5*time.Millisecond) // in the bubble's time; ends between two changes
			ts.server.StopChurn()
			list, err := ts.protobuf.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
			check.NoError(t, err)
			for i := range list.Items {
				p := &list.Items[i]
				ids = append(ids, p.Namespace+"/"+p.Name+" "+string(p.UID)+" "+p.ResourceVersion)
			}
		})
		return ids
	}
	if diff := cmp.Diff(pods(), pods()); diff != "" {
		t.Error(diff)
	}
}

// TestListCompression checks that the server compresses LISTs above 128 KiB, and only for clients
// that accept gzip.
func TestListCompression(t *testing.T) {
	withTestServer(t, apiserver.Options{Pods: 100}, func(t *testing.T, ts *testServer) {
		for _, accept := range []string{wire.ContentTypeJSON, wire.ContentTypeProtobuf} {
			plain := ts.do(http.MethodGet, "/api/v1/pods", nil, "Accept", accept)
			check.Equal(t, plain.header.Get("Content-Encoding"), "", "compressed unasked")
			zipped := ts.do(http.MethodGet, "/api/v1/pods", nil, "Accept", accept, "Accept-Encoding", "br, gzip;q=0.5")
			if zipped.header.Get("Content-Encoding") != "gzip" || len(zipped.body) > len(plain.body)/4 {
				t.Errorf("%s: %q, %d bytes of %d", accept, zipped.header.Get("Content-Encoding"), len(zipped.body), len(plain.body))
			}
			body, err := wire.NewBody(bytes.NewReader(zipped.body), "gzip")
			check.NoError(t, err)
			if text, err := io.ReadAll(body); err != nil || string(text) != string(plain.body) {
				t.Errorf("%s: other bytes, %v", accept, err)
			}
			if _, err := gzip.NewReader(bytes.NewReader(zipped.body)); err != nil {
				t.Error(err)
			}
		}
		refused := ts.do(http.MethodGet, "/api/v1/pods", nil, "Accept-Encoding", "gzip;q=0")
		small := ts.do(http.MethodGet, "/api/v1/pods?limit=5", nil, "Accept-Encoding", "gzip")
		if refused.header.Get("Content-Encoding") != "" || small.header.Get("Content-Encoding") != "" || small.header.Get("Content-Length") == "" {
			t.Error("compressed although it was refused, or although it is small")
		}
	})
}

// clientOf returns a client that does not reuse connections.
func clientOf(t *testing.T, cfg *rest.Config) kubernetes.Interface {
	t.Helper()
	if cfg.Transport == nil {
		cfg.Transport = &http.Transport{DisableKeepAlives: true}
	}
	client, err := kubernetes.NewForConfig(cfg)
	check.NoError(t, err)
	return client
}

// TestConfigStarts checks that Config starts a server that does not listen yet.
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

// TestWebPages checks that the server refuses reads and writes from a web page whose host name
// resolves to the server's address.
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
