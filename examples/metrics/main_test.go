package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// TestMetrics checks that the metrics and the debug page show the informer.
func TestMetrics(t *testing.T) {
	server, err := apiserver.New(apiserver.Options{Pods: 100})
	if err == nil {
		err = server.Start()
	}
	check.NoError(t, err)
	defer server.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, server.Config(), listener) }()
	get := func(path string) (int, string) {
		resp, err := http.Get("http://" + listener.Addr().String() + path)
		check.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		check.NoError(t, err)
		return resp.StatusCode, string(text)
	}
	testenv.Eventually(t, ctx, "the metrics count the pods", func() bool {
		_, text := get("/metrics")
		return strings.Contains(text, `weir_informer_objects{group="",kind="Pod",name="pods",version="v1"} 100`)
	})
	for path, want := range map[string]string{
		"/debug/weir/":          "<html",
		"/debug/weir/informers": `"pods"`,
	} {
		if code, text := get(path); code != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d, want %s in\n%.2000s", path, code, want, text)
		}
	}
	cancel()
	check.NoError(t, <-ended)
}
