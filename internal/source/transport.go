package source

import (
	"net/http"
	"runtime"
	"strings"
	"sync"
	"weak"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/weirproject/weir/internal/funcvalue"
)

// HTTPClient returns the client that rest.HTTPClientFor returns. client-go has the clients of equal
// configs share a transport, and with it connections, but not where a config has a Proxy or a Dial,
// which it cannot compare. Here they share one there too if those are the same function values, as
// in copies of a config.
func HTTPClient(cfg *rest.Config) (*http.Client, error) {
	if cfg.Transport != nil || cfg.Proxy == nil && cfg.Dial == nil {
		return rest.HTTPClientFor(cfg)
	}
	conf, err := cfg.TransportConfig()
	if err != nil {
		return nil, err
	}
	if _, err := transport.TLSConfigFor(conf); err != nil { // it reads the files that conf names
		return nil, err
	}
	cached, err := transports.get(transportKeyOf(cfg, conf), conf)
	if err != nil {
		return nil, err
	}
	rt, err := transport.HTTPWrappersForConfig(conf, cached)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: rt, Timeout: cfg.Timeout}, nil
}

// transportKey is what makes a transport another one. The data is that of the files where they are
// not read again.
type transportKey struct {
	insecure, uncompressed                               bool
	serverName, protocols                                string
	caFile, certFile, keyFile, caData, certData, keyData string
	// getCert is a credential plugin's.
	getCert *transport.GetCertHolder
	// proxy and dial are addresses of functions. A transport holds its functions, so nothing else has
	// these addresses; once it is gone it is not found any more.
	proxy, dial uintptr
}

func transportKeyOf(cfg *rest.Config, conf *transport.Config) transportKey {
	tls := conf.TLS
	if tls.ReloadTLSFiles { // by the transport
		tls.CertData, tls.KeyData = nil, nil
	}
	return transportKey{
		insecure: tls.Insecure, uncompressed: conf.DisableCompression,
		serverName: tls.ServerName, protocols: strings.Join(tls.NextProtos, ","),
		caFile: tls.CAFile, certFile: tls.CertFile, keyFile: tls.KeyFile,
		caData: string(tls.CAData), certData: string(tls.CertData), keyData: string(tls.KeyData),
		getCert: tls.GetCertHolder,
		proxy:   uintptr(funcvalue.Pointer(cfg.Proxy)), dial: uintptr(funcvalue.Pointer(cfg.Dial)),
	}
}

// sharedTransport is a transport of transportCache.
type sharedTransport struct{ http.RoundTripper }

// WrappedRoundTripper returns the transport below. client-go walks chains of transports by it.
func (t *sharedTransport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

// transportCache finds the transports that clients use. Each is collected with the last of its
// clients, and so is client-go's goroutine that looks for new certificates.
type transportCache struct {
	mu   sync.Mutex
	used map[transportKey]weak.Pointer[sharedTransport]
}

var transports = transportCache{used: map[transportKey]weak.Pointer[sharedTransport]{}}

func (c *transportCache) get(key transportKey, conf *transport.Config) (*sharedTransport, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.used[key].Value(); t != nil {
		return t, nil
	}
	t := &sharedTransport{}
	_, err := transport.New(&transport.Config{
		TLS: conf.TLS, DisableCompression: conf.DisableCompression, Proxy: conf.Proxy, DialHolder: conf.DialHolder,
		WrapTransport: func(rt http.RoundTripper) http.RoundTripper {
			t.RoundTripper = rt // without the wrapper that logs requests, which each client adds
			return rt
		},
	})
	if err != nil {
		return nil, err
	}
	of := weak.Make(t)
	c.used[key] = of
	runtime.AddCleanup(t, func(key transportKey) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.used[key] == of { // else there is a new one
			delete(c.used, key)
		}
	}, key)
	return t, nil
}
