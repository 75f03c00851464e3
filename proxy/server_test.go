package proxy

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

func TestBadOptions(t *testing.T) {
	dir := t.TempDir()
	for name, o := range map[string]Options{
		"no upstream":    {},
		"key only":       {Upstream: &rest.Config{Host: "localhost"}, KeyFile: "x"},
		"no such CA":     {Upstream: &rest.Config{Host: "localhost"}, Authentication: Authentication{SkipLookup: true, ClientCAFile: dir + "/none"}},
		"no such fronts": {Upstream: &rest.Config{Host: "localhost"}, Authentication: Authentication{SkipLookup: true, RequestHeaderCAFile: dir + "/none"}},
		"no resource":    {Upstream: &rest.Config{Host: "localhost"}, Resources: []string{""}},
	} {
		if _, err := New(context.Background(), o); !errors.Is(err, ErrInvalidOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	if _, err := New(ctx, Options{Upstream: &rest.Config{Host: "https://127.0.0.1:1"}}); err == nil || errors.Is(err, ErrInvalidOptions) {
		t.Errorf("no server at the address: %v", err)
	}
}

func TestParseResource(t *testing.T) {
	for text, want := range map[string]schema.GroupVersionResource{
		"pods":                        {Version: "v1", Resource: "pods"},
		"deployments.apps":            {Group: "apps", Resource: "deployments"},
		"deployments.v1.apps":         {Group: "apps", Version: "v1", Resource: "deployments"},
		"ingresses.networking.k8s.io": {Group: "networking.k8s.io", Resource: "ingresses"},
		"widgets.v1beta1.example.com": {Group: "example.com", Version: "v1beta1", Resource: "widgets"},
		"widgets.vendor.example.com":  {Group: "vendor.example.com", Resource: "widgets"},
	} {
		if got, err := parseResource(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// TestKubeconfig checks that a client can use the kubeconfig for the proxy immediately.
func TestKubeconfig(t *testing.T) {
	_, tp := start(t, apiserver.Options{Pods: 3}, Options{})
	of := clientcmdapi.NewConfig()
	of.CurrentContext = "c"
	of.Contexts["c"] = &clientcmdapi.Context{AuthInfo: "jane", Namespace: "ns"}
	of.AuthInfos["jane"] = &clientcmdapi.AuthInfo{Token: "token-jane"}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	check.NoError(t, tp.server.WriteKubeconfig(of, path))
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	check.NoError(t, err)
	tr, err := rest.TransportFor(cfg)
	check.NoError(t, err)
	client, err := kubernetes.NewForConfigAndClient(cfg, &http.Client{Transport: tr})
	check.NoError(t, err)
	list, err := client.CoreV1().Pods("").List(tp.ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 3 {
		t.Errorf("%v", err)
	}
	idle, err := New(tp.ctx, tp.server.opts)
	check.NoError(t, err)
	if _, err := idle.Kubeconfig(of); !errors.Is(err, ErrNotStarted) {
		t.Error(err)
	}
	check.NoError(t, idle.Close())
	if _, err := tp.server.Kubeconfig(clientcmdapi.NewConfig()); !errors.Is(err, ErrInvalidOptions) {
		t.Error(err)
	}
}

// TestClosed checks that Close ends served and forwarded watches, and that a closed server does not
// start again.
func TestClosed(t *testing.T) {
	_, tp := startReady(t, apiserver.Options{Pods: 3}, Options{Resources: []string{"pods"}})
	served := tp.watch("jane", "/api/v1/pods?watch=true&resourceVersion=0")
	tp.next(served, "ADDED")
	forwarded := tp.watch("jane", "/api/v1/nodes?watch=true&resourceVersion=0")
	check.NoError(t, tp.server.Close())
	for range served {
	}
	for range forwarded {
	}
	check.ErrorIs(t, tp.server.Start(), ErrClosed)
}
