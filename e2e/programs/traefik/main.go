// Command traefik runs Traefik's providers for Kubernetes: Ingress, its own custom resources, and
// Gateway API. It reports the dynamic configuration that the providers send to Traefik (see package
// report).
package main

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/traefik/paerser/types"
	"github.com/traefik/traefik/v3/pkg/config/dynamic"
	"github.com/traefik/traefik/v3/pkg/provider/kubernetes/crd"
	"github.com/traefik/traefik/v3/pkg/provider/kubernetes/gateway"
	"github.com/traefik/traefik/v3/pkg/provider/kubernetes/ingress"
	"github.com/traefik/traefik/v3/pkg/safe"

	"github.com/weirproject/weir/e2e/programs/report"
)

func main() { report.Main(run) }

// provider is what Traefik calls of a provider.
type provider interface {
	Init() error
	Provide(chan<- dynamic.Message, *safe.Pool) error
}

func run() error {
	zerolog.SetGlobalLevel(zerolog.ErrorLevel)
	throttle := types.Duration(500 * time.Millisecond)
	pool := safe.NewPool(context.Background())
	defer pool.Stop()
	messages := make(chan dynamic.Message)
	var c configurations
	go c.take(messages)
	for _, p := range []provider{
		&ingress.Provider{ThrottleDuration: throttle},
		&crd.Provider{ThrottleDuration: throttle},
		&gateway.Provider{ThrottleDuration: throttle, QPS: -1, EntryPoints: map[string]gateway.Entrypoint{"web": {Address: ":8000"}}},
	} {
		if err := p.Init(); err != nil {
			return err
		}
		if err := p.Provide(messages, pool); err != nil {
			return err
		}
	}
	return report.Serve(report.Knowledge{Count: c.count, All: c.all})
}

// configurations are the newest configurations of the providers, by the provider's name.
type configurations struct {
	mu    sync.Mutex
	known map[string]*dynamic.Configuration
}

// take receives configurations for the life of the program.
func (c *configurations) take(messages <-chan dynamic.Message) {
	for m := range messages {
		c.mu.Lock()
		if c.known == nil {
			c.known = map[string]*dynamic.Configuration{}
		}
		c.known[m.ProviderName] = m.Configuration
		c.mu.Unlock()
	}
}

// count returns the number of HTTP routers.
func (c *configurations) count() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, configuration := range c.known {
		n += len(configuration.HTTP.Routers)
	}
	return n
}

// all returns the parts of all configurations: routers, services and middlewares by name, and the
// rest by protocol.
func (c *configurations) all() map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]any{}
	for provider, configuration := range c.known {
		for name, router := range configuration.HTTP.Routers {
			all[provider+" router "+name] = router
		}
		for name, service := range configuration.HTTP.Services {
			all[provider+" service "+name] = service
		}
		for name, middleware := range configuration.HTTP.Middlewares {
			all[provider+" middleware "+name] = middleware
		}
		all[provider+" transports"] = configuration.HTTP.ServersTransports
		all[provider+" TCP"], all[provider+" UDP"], all[provider+" TLS"] = configuration.TCP, configuration.UDP, configuration.TLS
	}
	return all
}
