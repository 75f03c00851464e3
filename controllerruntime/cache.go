package controllerruntime

import (
	"errors"
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/internal/reflector"
)

// NewCache makes a manager's or a cluster's Options.NewCache: controller-runtime's own cache with the informers of NewInformer,
// on a client that captures. The config and the HTTP client that it is given are left as they are, so nothing else that
// uses them changes. A cache.Options.NewInformer that is set is kept.
//
// The error is that of cache.New, or says what is wrong with the config.
func NewCache(opts ...Option) cache.NewCacheFunc {
	s := newSettings(opts)
	return func(cfg *rest.Config, o cache.Options) (cache.Cache, error) {
		if cfg == nil {
			return nil, errNoConfig
		}
		if o.NewInformer == nil {
			o.NewInformer = newInformer(s, o.Scheme, &reflector.Server{})
		}
		client, err := capturing(cfg, o.HTTPClient)
		if err != nil {
			return nil, err
		}
		o.HTTPClient = client
		return cache.New(cfg, o)
	}
}

var errNoConfig = errors.New("controllerruntime: NewCache needs a rest.Config")

// capturing is a client like the one given, or like the config says if there is none, with clientgo's transport
// around that client's own: they share their connections.
func capturing(cfg *rest.Config, client *http.Client) (*http.Client, error) {
	if client == nil {
		cfg = rest.CopyConfig(cfg)
		if cfg.UserAgent == "" {
			cfg.UserAgent = rest.DefaultKubernetesUserAgent()
		}
		made, err := rest.HTTPClientFor(cfg)
		if err != nil {
			return nil, fmt.Errorf("controllerruntime: %w", err)
		}
		client = made
	}
	wrapped := &rest.Config{DisableCompression: cfg.DisableCompression}
	clientgo.Wrap(wrapped)
	ours := *client
	if ours.Transport == nil {
		ours.Transport = http.DefaultTransport
	}
	ours.Transport = wrapped.WrapTransport(ours.Transport)
	return &ours, nil
}
