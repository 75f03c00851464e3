package proxy

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
)

// publishedConfig returns the ConfigMap in which the upstream publishes its CAs, or nil if there is
// none or the proxy may not read it.
func publishedConfig(ctx context.Context, o *Options, client kubernetes.Interface) (map[string]string, error) {
	if o.Authentication.SkipLookup {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeouts.review)
	defer cancel()
	cm, err := client.CoreV1().ConfigMaps(configMapNamespace).Get(ctx, configMapName, metav1.GetOptions{})
	switch {
	case err == nil:
		return cm.Data, nil
	case apierrors.IsForbidden(err) || apierrors.IsNotFound(err):
		o.Log.Warn("the upstream publishes no CAs that the proxy may read: certificates are believed only by a CA that is given", "error", err)
		return nil, nil
	}
	return nil, fmt.Errorf("proxy: the upstream's CAs: %w", err)
}

// followPublishedCA returns a published CA that is kept current while the server runs.
func (a *authentication) followPublishedCA(client kubernetes.Interface, key string) (dynamiccertificates.CAContentProvider, error) {
	ca, err := dynamiccertificates.NewDynamicCAFromConfigMapController(key, configMapNamespace, configMapName, key, client)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	a.controllers = append(a.controllers, func(ctx context.Context) { ca.Run(ctx, 1) })
	a.clientCAs = append(a.clientCAs, ca)
	return ca, nil
}

// ready reports whether each published CA has been read. Before, callers with certificates are not
// known.
func (a *authentication) ready() bool {
	return !slices.ContainsFunc(a.clientCAs, func(ca dynamiccertificates.CAContentProvider) bool { return len(ca.CurrentCABundleContent()) == 0 })
}

// clientCA returns the CA of client certificates, or nil if none is trusted.
func (a *authentication) clientCA(o *Options, client kubernetes.Interface, of map[string]string) (dynamiccertificates.CAContentProvider, error) {
	if file := o.Authentication.ClientCAFile; file != "" {
		ca, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", file)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrOptions, err)
		}
		a.controllers = append(a.controllers, func(ctx context.Context) { ca.Run(ctx, 1) })
		return ca, nil
	}
	if of[clientCAKey] == "" {
		return nil, nil
	}
	return a.followPublishedCA(client, clientCAKey)
}

// requestHeaders returns the configuration of front proxies, or nil if none is trusted.
func (a *authentication) requestHeaders(ctx context.Context, o *Options, client kubernetes.Interface, of map[string]string) (
	*authenticatorfactory.RequestHeaderConfig, error) {
	c := &o.Authentication
	if file := c.RequestHeaderCAFile; file != "" {
		ca, err := dynamiccertificates.NewDynamicCAContentFromFile("request-header", file)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrOptions, err)
		}
		a.controllers = append(a.controllers, func(ctx context.Context) { ca.Run(ctx, 1) })
		return &authenticatorfactory.RequestHeaderConfig{
			CAContentProvider:   ca,
			AllowedClientNames:  headerrequest.StaticStringSlice(c.RequestHeaderNames),
			UsernameHeaders:     headerrequest.StaticStringSlice(c.UserHeaders),
			UIDHeaders:          headerrequest.StaticStringSlice(c.UIDHeaders),
			GroupHeaders:        headerrequest.StaticStringSlice(c.GroupHeaders),
			ExtraHeaderPrefixes: headerrequest.StaticStringSlice(c.ExtraPrefixes),
		}, nil
	}
	if of[headerCAKey] == "" {
		return nil, nil
	}
	names := headerrequest.NewRequestHeaderAuthRequestController(configMapName, configMapNamespace, client, "requestheader-username-headers",
		"requestheader-uid-headers", "requestheader-group-headers", "requestheader-extra-headers-prefix", "requestheader-allowed-names")
	if err := names.RunOnce(ctx); err != nil {
		return nil, fmt.Errorf("proxy: the upstream's front proxies: %w", err)
	}
	a.controllers = append(a.controllers, func(ctx context.Context) { names.Run(ctx, 1) })
	ca, err := a.followPublishedCA(client, headerCAKey)
	if err != nil {
		return nil, err
	}
	return &authenticatorfactory.RequestHeaderConfig{
		CAContentProvider:   ca,
		AllowedClientNames:  headerrequest.StringSliceProviderFunc(names.AllowedClientNames),
		UsernameHeaders:     headerrequest.StringSliceProviderFunc(names.UsernameHeaders),
		UIDHeaders:          headerrequest.StringSliceProviderFunc(names.UIDHeaders),
		GroupHeaders:        headerrequest.StringSliceProviderFunc(names.GroupHeaders),
		ExtraHeaderPrefixes: headerrequest.StringSliceProviderFunc(names.ExtraHeaderPrefixes),
	}, nil
}
