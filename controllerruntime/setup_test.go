package controllerruntime_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/controllerruntime"
	"github.com/weirproject/weir/internal/testing/check"
)

// deadline limits every wait. It is long because no test measures time.
const deadline = 2 * time.Minute

// cacheBuilder is one way to build a cache. Tests run with each builder, because caches with Weir's
// informers must behave like controller-runtime's own cache.
type cacheBuilder struct {
	name     string
	newCache cache.NewCacheFunc
	ours     bool
}

var builders = []cacheBuilder{
	{"controller-runtime", cache.New, false},
	{"weir", controllerruntime.NewCache(), true},
	{"NewInformer", withNewInformer, true},
	{"NewInformer with a wrapped config", wrapped, true},
	{"a wrapped config", wrappedTwice, true},
	{"pinned", controllerruntime.NewCache(controllerruntime.WithOptions(clientgo.Options{PinDecoded: true})), true},
	{"private", controllerruntime.NewCache(controllerruntime.WithOptions(clientgo.Options{PrivateCopies: true})), true},
	{"detecting", controllerruntime.NewCache(controllerruntime.WithOptions(clientgo.Options{DetectMutation: true})), true},
}

// withNewInformer builds a cache with NewInformer but without Wrap, so that the informers capture
// nothing.
func withNewInformer(cfg *rest.Config, o cache.Options) (cache.Cache, error) {
	o.NewInformer = controllerruntime.NewInformer()
	return cache.New(cfg, o)
}

// wrapped builds a cache with NewInformer and Wrap, which has the same effect as NewCache.
func wrapped(cfg *rest.Config, o cache.Options) (cache.Cache, error) {
	cfg = rest.CopyConfig(cfg)
	clientgo.Wrap(cfg)
	o.NewInformer = controllerruntime.NewInformer()
	return cache.New(cfg, o)
}

// wrappedTwice calls NewCache with a config that was already passed to Wrap.
func wrappedTwice(cfg *rest.Config, o cache.Options) (cache.Cache, error) {
	cfg = rest.CopyConfig(cfg)
	clientgo.Wrap(cfg)
	return controllerruntime.NewCache()(cfg, o)
}

// each runs a test with every builder.
func each(t *testing.T, test func(t *testing.T, s *setup)) {
	for _, b := range builders {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel() // controller-runtime polls most of the time
			test(t, newSetup(t, b))
		})
	}
}

// setup is the server and the state of one test.
type setup struct {
	t       *testing.T
	ctx     context.Context
	builder cacheBuilder
	server  *apiserver.Server
	faults  *apiserver.Faults
	cfg     *rest.Config
	scheme  *runtime.Scheme
	client  client.Client // reads and writes without a cache
}

func newSetup(t *testing.T, b cacheBuilder) *setup {
	t.Helper()
	s := &setup{t: t, builder: b, faults: &apiserver.Faults{}, scheme: runtime.NewScheme()}
	var err error
	s.server, err = apiserver.New(apiserver.Options{AnyNamespace: true, Faults: s.faults, Resources: []apiserver.Resource{widgets}})
	check.NoError(t, err)
	t.Cleanup(func() { _ = s.server.Close() })
	check.NoError(t, s.server.Start())
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	t.Cleanup(cancel)
	s.ctx, s.cfg = ctx, s.server.Config()
	check.NoError(t, clientgoscheme.AddToScheme(s.scheme))
	addWidgets(s.scheme)
	http, err := rest.HTTPClientFor(s.cfg)
	check.NoError(t, err)
	t.Cleanup(func() { utilnet.CloseIdleConnectionsFor(http.Transport) })
	s.client, err = client.New(s.cfg, client.Options{HTTPClient: http, Scheme: s.scheme})
	check.NoError(t, err)
	return s
}

// cache builds a cache with the setup's builder and does not start it.
func (s *setup) cache(o cache.Options) cache.Cache {
	s.t.Helper()
	o.Scheme = s.scheme
	c, err := s.builder.newCache(s.cfg, o)
	check.NoError(s.t, err)
	return c
}

// start runs a cache until the test ends, and waits until it has synced.
func (s *setup) start(c cache.Cache) cache.Cache {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := c.Start(ctx); err != nil {
			s.t.Error(err)
		}
	})
	s.t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	if !c.WaitForCacheSync(s.ctx) {
		s.t.Fatal("the cache did not sync")
	}
	return c
}

// create creates copies of the objects on the server, because client.Create changes its argument.
func (s *setup) create(objects ...client.Object) {
	s.t.Helper()
	for _, o := range objects {
		check.NoError(s.t, s.client.Create(s.ctx, o.DeepCopyObject().(client.Object)))
	}
}

func (s *setup) informer(c cache.Cache, o client.Object) cache.Informer {
	s.t.Helper()
	inf, err := c.GetInformer(s.ctx, o)
	check.NoError(s.t, err)
	return inf
}
