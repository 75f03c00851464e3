package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/weirproject/weir/apiserver"
)

func leaf(t *testing.T, c *servingCertificate) *x509.Certificate {
	t.Helper()
	pair, err := c.get(&tls.ClientHelloInfo{})
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

// TestCertDir: a certificate that was made stays, until it is not good for what it is to be good
// for.
func TestCertDir(t *testing.T) {
	o := Options{Listen: "127.0.0.1:0", CertDir: filepath.Join(t.TempDir(), "certs")}
	first, err := newServingCertificate(&o)
	if err != nil {
		t.Fatal(err)
	}
	second, err := newServingCertificate(&o)
	if err != nil {
		t.Fatal(err)
	}
	if !leaf(t, first).Equal(leaf(t, second)) {
		t.Error("made again without a reason")
	}
	o.Hosts = []string{"weir.kube-system.svc", "10.0.0.1"}
	other, err := newServingCertificate(&o)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range append(o.Hosts, "localhost", "127.0.0.1") {
		if err := leaf(t, other).VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	info, err := os.Stat(filepath.Join(o.CertDir, keyName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	// Files that change are read again.
	given, err := newServingCertificate(&Options{CertFile: filepath.Join(o.CertDir, certName), KeyFile: filepath.Join(o.CertDir, keyName)})
	if err != nil {
		t.Fatal(err)
	}
	before := leaf(t, given)
	if err := other.renew(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(given.certFile, time.Time{}, time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	given.checkedAt = time.Time{}
	if leaf(t, given).Equal(before) {
		t.Error("the certificate is still the old one")
	}
}

// TestRenewal: a certificate that was made is renewed while the process runs, once for all
// handshakes, and clients need to trust nothing new.
func TestRenewal(t *testing.T) {
	for name, dir := range map[string]string{"in memory": "", "in a directory": filepath.Join(t.TempDir(), "certs")} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testRenewal(t, dir) }) })
	}
}

func testRenewal(t *testing.T, dir string) {
	o := Options{CertDir: dir}.withDefaults()
	c, err := newServingCertificate(&o)
	if err != nil {
		t.Fatal(err)
	}
	first, roots := leaf(t, c), x509.NewCertPool()
	roots.AppendCertsFromPEM(c.caData())
	const eightMonths = selfSignedValidity * 2 / 3
	time.Sleep(eightMonths - time.Hour)
	if !leaf(t, c).Equal(first) {
		t.Error("it is renewed too early")
	}
	for range 3 {
		before := leaf(t, c)
		time.Sleep(eightMonths)
		var served [8]*x509.Certificate
		var wg sync.WaitGroup
		for i := range served {
			wg.Go(func() { served[i] = leaf(t, c) })
		}
		wg.Wait()
		if served[0].Equal(before) {
			t.Error("it is not renewed")
		}
		for _, cert := range served {
			if _, err := cert.Verify(x509.VerifyOptions{DNSName: "127.0.0.1", Roots: roots}); err != nil || !cert.Equal(served[0]) {
				t.Errorf("%v; the same for all: %t", err, cert.Equal(served[0]))
			}
		}
	}
	if dir == "" {
		return
	}
	again, err := newServingCertificate(&o)
	if err != nil || !leaf(t, again).Equal(leaf(t, c)) || !bytes.Equal(again.caData(), c.caData()) {
		t.Errorf("a start makes another: %v", err)
	}
	// What cannot be written is served all the same.
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(selfSignedValidity)
	if _, err := leaf(t, c).Verify(x509.VerifyOptions{DNSName: "127.0.0.1", Roots: roots}); err != nil {
		t.Error(err)
	}
}

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

// TestKubeconfig: it is good for the proxy at once.
func TestKubeconfig(t *testing.T) {
	u := startUpstream(t, apiserver.Options{Pods: 3})
	tp := startProxy(t, u, Options{})
	of := clientcmdapi.NewConfig()
	of.CurrentContext = "c"
	of.Contexts["c"] = &clientcmdapi.Context{AuthInfo: "jane", Namespace: "ns"}
	of.AuthInfos["jane"] = &clientcmdapi.AuthInfo{Token: "token-jane"}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := tp.server.WriteKubeconfig(of, path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := rest.TransportFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfigAndClient(cfg, &http.Client{Transport: tr})
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.CoreV1().Pods("").List(tp.ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 3 {
		t.Errorf("%v", err)
	}
	idle, err := New(tp.ctx, tp.server.opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := idle.Kubeconfig(of); !errors.Is(err, ErrNotStarted) {
		t.Error(err)
	}
	if err := idle.Close(); err != nil {
		t.Error(err)
	}
	if _, err := tp.server.Kubeconfig(clientcmdapi.NewConfig()); !errors.Is(err, ErrInvalidOptions) {
		t.Error(err)
	}
}

// TestClosed: a closed server answers 503 and does not start again.
func TestClosed(t *testing.T) {
	u := startUpstream(t, apiserver.Options{Pods: 3})
	tp := startProxy(t, u, Options{Resources: []string{"pods"}})
	tp.ready()
	served := tp.watch("jane", "/api/v1/pods?watch=true&resourceVersion=0")
	tp.next(served, "ADDED")
	forwarded := tp.watch("jane", "/api/v1/nodes?watch=true&resourceVersion=0")
	if err := tp.server.Close(); err != nil {
		t.Fatal(err)
	}
	for range served {
	}
	for range forwarded {
	}
	if err := tp.server.Start(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}
