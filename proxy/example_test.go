package proxy_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/proxy"
)

// This example starts a proxy in front of an embedded API server. For a cluster, Upstream would be
// loaded from a kubeconfig.
func Example() {
	upstream, err := apiserver.New(apiserver.Options{Pods: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer upstream.Close()
	if err := upstream.Start(); err != nil {
		fmt.Println(err)
		return
	}
	server, err := proxy.New(context.Background(), proxy.Options{
		Upstream:       upstream.Config(),
		Resources:      []string{"pods", "deployments.apps"},
		Authentication: proxy.Authentication{SkipLookup: true},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	if err := server.Start(); err != nil {
		fmt.Println(err)
		return
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(server.CAData())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get(server.URL() + "/livez")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(string(body))
	// Output: ok
}
