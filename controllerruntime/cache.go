package controllerruntime

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/internal/core/source"
)

// NewCache returns a function for Options.NewCache of a manager or a cluster. The function builds
// controller-runtime's own cache with Weir's informers, which read the bodies of the responses to
// their LISTs and WATCHes themselves. The function changes neither the config nor the HTTP client
// that it receives. It returns an error if the config is nil or invalid, or if cache.New returns
// one. It may be called several times, also concurrently.
//
// If cache.Options.NewInformer is set, the cache calls it. If it returns a Weir informer, the cache
// uses this informer. If it returns client-go's informer, the cache uses a Weir informer with the
// same ListerWatcher, indexers, transform and watch error handler; see clientgo.Adopt. The program
// must not read or run the informer that its NewInformer has returned, because the cache runs only
// the replacement. Any other informer, such as a wrapper or an informer with handlers, the cache
// uses as it is, and logs that. clientgo.Err returns clientgo.ErrForeignInformer for it.
func NewCache(opts ...Option) cache.NewCacheFunc {
	s := newSettings(opts)
	return func(cfg *rest.Config, o cache.Options) (cache.Cache, error) {
		if cfg == nil {
			return nil, errNoConfig
		}
		server := &weir.ServerGroup{}
		if o.NewInformer == nil {
			o.NewInformer = newInformer(s, o.Scheme, server)
		} else {
			o.NewInformer = adopting(o.NewInformer, s, o.Scheme, server)
		}
		client, err := capturingClient(cfg, o.HTTPClient)
		if err != nil {
			return nil, err
		}
		o.HTTPClient = client
		return cache.New(cfg, o)
	}
}

var errNoConfig = errors.New("controllerruntime: NewCache needs a rest.Config")

// capturingClient returns a copy of client whose transport is wrapped as by clientgo.Wrap. The copy
// and client share their connections. If client is nil, capturingClient builds a client for cfg
// first.
func capturingClient(cfg *rest.Config, client *http.Client) (*http.Client, error) {
	if client == nil {
		cfg = source.CopyConfig(cfg)
		cfg.UserAgent = cmp.Or(cfg.UserAgent, rest.DefaultKubernetesUserAgent())
		made, err := rest.HTTPClientFor(cfg)
		if err != nil {
			return nil, fmt.Errorf("controllerruntime: %w", err)
		}
		client = made
	}
	wrapped := &rest.Config{DisableCompression: cfg.DisableCompression}
	clientgo.Wrap(wrapped)
	if wrapped.WrapTransport == nil {
		return client, nil // package clientgo is off
	}
	ours := *client
	if ours.Transport == nil {
		ours.Transport = http.DefaultTransport
	}
	ours.Transport = wrapped.WrapTransport(ours.Transport)
	return &ours, nil
}
