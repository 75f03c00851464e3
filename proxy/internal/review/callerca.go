package review

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
)

// callerCAs verifies the certificates of callers. It does not change while it is in use.
type callerCAs struct {
	frontProxies, clients authenticator.Request                     // nil: no CA is trusted
	headers               *authenticatorfactory.RequestHeaderConfig // of frontProxies
	// published contains the names of the headers that the upstream accepts from front proxies. nil:
	// the names were not read.
	published *headerrequest.RequestHeaderAuthRequestController
	// missing says that the proxy could not read the published CAs.
	missing     bool
	followed    []dynamiccertificates.CAContentProvider // the published CAs that are used
	controllers []func(context.Context)                 // keep the CAs current
}

const (
	configMapNamespace = "kube-system"
	configMapName      = "extension-apiserver-authentication"
	clientCAKey        = "client-ca-file"
	headerCAKey        = "requestheader-client-ca-file"
	// lookupTimeout is how long the proxy waits for the published CAs before it is ready without them.
	// An API server that has just started publishes them, and lets the proxy read them, within
	// seconds.
	lookupTimeout = 6 * time.Second
)

// errNotPublished is returned if the upstream publishes no CAs, or the proxy may not read them.
var errNotPublished = errors.New("the upstream publishes no CAs that the proxy may read")

// publishedConfig returns the data of the ConfigMap in which the upstream publishes its CAs, or nil
// if the configuration says to ignore it.
func publishedConfig(ctx context.Context, o *Config) (map[string]string, error) {
	if o.Trust.SkipLookup {
		return nil, nil
	}
	cm, err := o.Client.CoreV1().ConfigMaps(configMapNamespace).Get(ctx, configMapName, metav1.GetOptions{})
	switch {
	case err == nil:
		return cm.Data, nil
	case apierrors.IsForbidden(err) || apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%w: %w", errNotPublished, err)
	}
	return nil, fmt.Errorf("the upstream's CAs: %w", err)
}

// trustCallers sets the CAs of callers. If the upstream publishes none yet, a controller looks for
// them while the server runs.
func (a *Authenticator) trustCallers(ctx context.Context, o *Config) error {
	given, err := givenCAs(&o.Trust)
	if err != nil {
		return err
	}
	a.controllers = given.controllers
	cas, err := given.withPublished(ctx, o)
	switch {
	case errors.Is(err, errNotPublished):
		o.Log.Warn("only CAs from flags are trusted, until the CAs of the upstream can be read", "error", err)
		given.missing = true
		a.controllers = append(a.controllers, func(ctx context.Context) { a.lookUp(ctx, o) })
		cas = given
	case err != nil:
		return err
	default:
		a.controllers = append(a.controllers, cas.controllers...)
	}
	a.cas.Store(cas)
	return nil
}

// lookUp tries to read the published CAs until it succeeds, and then keeps them current until ctx
// ends.
func (a *Authenticator) lookUp(ctx context.Context, o *Config) {
	var cas *callerCAs
	err := wait.PollUntilContextCancel(ctx, o.Lookup, false, func(ctx context.Context) (_ bool, err error) {
		cas, err = a.cas.Load().withPublished(ctx, o)
		return err == nil, nil
	})
	if err != nil { // ctx has ended
		return
	}
	a.cas.Store(cas)
	o.Log.Info("the CAs of the upstream are trusted from now on")
	cas.run(ctx)
}

// Ready reports whether the proxy can verify the certificates of callers: it has read each
// published CA, or it could read none for lookupTimeout.
func (a *Authenticator) Ready(now time.Time) bool {
	cas := a.cas.Load()
	if cas.missing {
		return now.Sub(a.created) >= lookupTimeout
	}
	return !slices.ContainsFunc(cas.followed, func(ca dynamiccertificates.CAContentProvider) bool { return len(ca.CurrentCABundleContent()) == 0 })
}

// givenCAs returns the CAs from the files that the user gave.
func givenCAs(c *Trust) (*callerCAs, error) {
	cas := &callerCAs{}
	if file := c.RequestHeaderCAFile; file != "" {
		ca, err := cas.read("request-header", file)
		if err != nil {
			return nil, err
		}
		if err := cas.trustFrontProxies(&authenticatorfactory.RequestHeaderConfig{
			CAContentProvider:   ca,
			AllowedClientNames:  headerrequest.StaticStringSlice(c.RequestHeaderNames),
			UsernameHeaders:     headerrequest.StaticStringSlice(c.UserHeaders),
			UIDHeaders:          headerrequest.StaticStringSlice(c.UIDHeaders),
			GroupHeaders:        headerrequest.StaticStringSlice(c.GroupHeaders),
			ExtraHeaderPrefixes: headerrequest.StaticStringSlice(c.ExtraPrefixes),
		}); err != nil {
			return nil, err
		}
	}
	if file := c.ClientCAFile; file != "" {
		ca, err := cas.read("client-ca", file)
		if err != nil {
			return nil, err
		}
		return cas, cas.trustClients(ca)
	}
	return cas, nil
}

// read returns the CA in a file. A controller reloads it when the file changes.
func (c *callerCAs) read(purpose, file string) (dynamiccertificates.CAContentProvider, error) {
	ca, err := dynamiccertificates.NewDynamicCAContentFromFile(purpose, file)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	c.controllers = append(c.controllers, func(ctx context.Context) { ca.Run(ctx, 1) })
	return ca, nil
}

// withPublished returns the CAs of c, and a published CA in place of each CA that c lacks. The
// controllers of the result are only those of the published CAs.
func (c *callerCAs) withPublished(ctx context.Context, o *Config) (*callerCAs, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	published, err := publishedConfig(ctx, o)
	if err != nil {
		return nil, err
	}
	all := &callerCAs{frontProxies: c.frontProxies, headers: c.headers, clients: c.clients}
	if err := all.follow(ctx, o.Client, published); err != nil {
		cancel()
		// the context has ended, so this only releases what the controllers have started
		all.run(ctx)
		return nil, err
	}
	return all, nil
}

// follow adds the published names of headers, and each published CA that c lacks. It adds the
// controllers that keep them current.
func (c *callerCAs) follow(ctx context.Context, client kubernetes.Interface, published map[string]string) error {
	if published == nil { // ignored by configuration
		return nil
	}
	if err := c.followHeaders(ctx, client); err != nil {
		return err
	}
	if c.frontProxies == nil && published[headerCAKey] != "" {
		if err := c.followFrontProxies(client); err != nil {
			return err
		}
	}
	if c.clients == nil && published[clientCAKey] != "" {
		ca, err := c.followCA(client, clientCAKey)
		if err != nil {
			return err
		}
		return c.trustClients(ca)
	}
	return nil
}

// followCA returns a published CA. A controller keeps it current while the server runs.
func (c *callerCAs) followCA(client kubernetes.Interface, key string) (dynamiccertificates.CAContentProvider, error) {
	ca, err := dynamiccertificates.NewDynamicCAFromConfigMapController(key, configMapNamespace, configMapName, key, client)
	if err != nil {
		return nil, err
	}
	c.controllers = append(c.controllers, func(ctx context.Context) { ca.Run(ctx, 1) })
	c.followed = append(c.followed, ca)
	return ca, nil
}

// followHeaders reads the published names of headers. A controller keeps them current while the
// server runs.
func (c *callerCAs) followHeaders(ctx context.Context, client kubernetes.Interface) error {
	names := headerrequest.NewRequestHeaderAuthRequestController(configMapName, configMapNamespace, client, "requestheader-username-headers",
		"requestheader-uid-headers", "requestheader-group-headers", "requestheader-extra-headers-prefix", "requestheader-allowed-names")
	c.controllers = append(c.controllers, func(ctx context.Context) { names.Run(ctx, 1) })
	if err := names.RunOnce(ctx); err != nil {
		return fmt.Errorf("the upstream's front proxies: %w", err)
	}
	c.published = names
	return nil
}

// followFrontProxies adds the published configuration of front proxies.
func (c *callerCAs) followFrontProxies(client kubernetes.Interface) error {
	ca, err := c.followCA(client, headerCAKey)
	if err != nil {
		return err
	}
	return c.trustFrontProxies(&authenticatorfactory.RequestHeaderConfig{
		CAContentProvider:   ca,
		AllowedClientNames:  headerrequest.StringSliceProviderFunc(c.published.AllowedClientNames),
		UsernameHeaders:     headerrequest.StringSliceProviderFunc(c.published.UsernameHeaders),
		UIDHeaders:          headerrequest.StringSliceProviderFunc(c.published.UIDHeaders),
		GroupHeaders:        headerrequest.StringSliceProviderFunc(c.published.GroupHeaders),
		ExtraHeaderPrefixes: headerrequest.StringSliceProviderFunc(c.published.ExtraHeaderPrefixes),
	})
}

// namesCaller reports whether trusted front proxies use this header to name a caller.
func (c *callerCAs) namesCaller(header string) bool {
	h := c.headers
	return h != nil && NamesHeader(header, h.ExtraHeaderPrefixes.Value(), h.UsernameHeaders.Value(), h.UIDHeaders.Value(), h.GroupHeaders.Value())
}

// NamesHeader reports whether the header starts with one of the prefixes, or is in one of the
// lists.
func NamesHeader(header string, prefixes []string, lists ...[]string) bool {
	for _, names := range lists {
		if slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, header) }) {
			return true
		}
	}
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		return prefix != "" && len(header) >= len(prefix) && strings.EqualFold(header[:len(prefix)], prefix)
	})
}

func (c *callerCAs) trustFrontProxies(headers *authenticatorfactory.RequestHeaderConfig) (err error) {
	c.headers = headers
	c.frontProxies, _, err = authenticatorfactory.DelegatingAuthenticatorConfig{RequestHeaderConfig: headers}.New()
	return err
}

func (c *callerCAs) trustClients(ca dynamiccertificates.CAContentProvider) (err error) {
	c.clients, _, err = authenticatorfactory.DelegatingAuthenticatorConfig{ClientCertificateCAContentProvider: ca}.New()
	return err
}

// run runs the controllers until ctx ends.
func (c *callerCAs) run(ctx context.Context) { runAll(ctx, c.controllers) }

// runAll runs the functions concurrently, and returns when all have returned, after ctx ends.
func runAll(ctx context.Context, all []func(context.Context)) {
	var running sync.WaitGroup
	for _, run := range all {
		running.Go(func() { run(ctx) })
	}
	running.Wait()
}
