//go:build !weir_safe

package source

import (
	"net/http"
	"net/url"
	"runtime"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestUnusedTransportIsFreed checks that the garbage collector frees a transport in the cache when
// no client refers to it, and not before.
func TestUnusedTransportIsFreed(t *testing.T) {
	cfg := &rest.Config{Host: "https://none.invalid", Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }}
	transportOf := func() (*http.Client, transportKey) {
		client, err := HTTPClient(cfg)
		check.NoError(t, err)
		conf, err := cfg.TransportConfig()
		check.NoError(t, err)
		return client, transportKeyOf(cfg, conf)
	}
	used := func(key transportKey) bool {
		transports.mu.Lock()
		defer transports.mu.Unlock()
		return transports.used[key].Value() != nil
	}
	client, key := transportOf()
	runtime.GC()
	if !used(key) {
		t.Error("it is gone while a client has it")
	}
	runtime.KeepAlive(client)
	runtime.GC()
	if used(key) {
		t.Error("it is there without a client")
	}
}
