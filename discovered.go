package weir

import (
	"context"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/source"
)

// discovered is a source.Source for a resource of which only the kind is known. It asks the server
// for the resource's name before the first LIST. It asks again after the server answers a LIST with
// NotFound, because the resource may have been reinstalled under another name. While the server
// does not serve the kind, List returns NotFound and the reflector retries.
type discovered struct {
	gvk    schema.GroupVersionKind
	want   source.Resource
	stats  *source.Stats
	client *source.Discovery
	guess  *source.REST // for requests that do not depend on the resource's name

	mu    sync.Mutex
	found *source.REST // nil until the server has returned the resource's name
}

func newDiscovered(cfg *rest.Config, gvk schema.GroupVersionKind, want source.Resource, opts source.Options) (*discovered, error) {
	want.GVR = guessResource(gvk)
	guess, err := source.New(cfg, want, opts)
	if err != nil {
		return nil, err
	}
	client, err := source.NewDiscovery(cfg)
	if err != nil {
		return nil, err
	}
	return &discovered{gvk: gvk, want: want, stats: opts.Stats, client: client, guess: guess}, nil
}

// guessResource returns the conventional resource of a kind: its plural. All built-in resources
// have the conventional name.
func guessResource(gvk schema.GroupVersionKind) schema.GroupVersionResource {
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	return plural
}

func (d *discovered) List(ctx context.Context, o metav1.ListOptions) (source.List, error) {
	src, err := d.resolve(ctx)
	if err != nil {
		return nil, err
	}
	l, err := src.List(ctx, o)
	d.forget(src, err)
	return l, err
}

func (d *discovered) Watch(ctx context.Context, o metav1.ListOptions) (source.Watch, error) {
	src, err := d.resolve(ctx)
	if err != nil {
		return nil, err
	}
	w, err := src.Watch(ctx, o)
	if o.SendInitialEvents != nil { // this WATCH replaces a LIST
		d.forget(src, err)
	}
	return w, err
}

func (d *discovered) NewestVersion(ctx context.Context, o metav1.ListOptions) (string, error) {
	src, err := d.resolve(ctx)
	if err != nil {
		return "", err
	}
	return src.NewestVersion(ctx, o)
}

func (d *discovered) ServerVersion(ctx context.Context) (major, minor int, err error) {
	return d.guess.ServerVersion(ctx)
}

// CloseIdleConnections closes the idle connections of all requests. All requests share one pool.
func (d *discovered) CloseIdleConnections() { d.guess.CloseIdleConnections() }

// resolve returns the source of the kind's resource. It asks the server once and reuses the answer
// until forget drops it. It returns NotFound if the server does not serve the kind.
func (d *discovered) resolve(ctx context.Context) (*source.REST, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.found != nil {
		return d.found, nil
	}
	if d.stats != nil {
		d.stats.Requests.Add(1)
	}
	resources, err := d.client.GroupVersion(ctx, d.gvk.GroupVersion())
	if err != nil {
		return nil, fmt.Errorf("discover %s: %w", d.gvk, err)
	}
	for _, r := range resources.APIResources {
		if r.Kind == d.gvk.Kind && !strings.Contains(r.Name, "/") {
			d.want.GVR = d.gvk.GroupVersion().WithResource(r.Name)
			d.found, err = d.guess.Of(d.want)
			return d.found, err
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: d.gvk.Group, Resource: d.gvk.Kind}, "")
}

// forget drops src if err is the server's NotFound. The next request then asks for the resource's
// name again.
func (d *discovered) forget(src *source.REST, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.found == src && apierrors.IsNotFound(err) {
		d.found = nil
	}
}
