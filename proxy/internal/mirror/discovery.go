package mirror

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/serve/watchcache"
)

// discoverer asks the upstream about resources.
type discoverer struct {
	client  rest.Interface
	timeout time.Duration // of a request
}

// resourceInfo describes a resource that the proxy can cache.
type resourceInfo struct {
	watchcache.Resource
	encoding wire.Encoding
	// UnknownFields is true if the upstream may have fields of this built-in kind that the linked Go
	// type lacks. Then only the bytes from the upstream are complete.
	UnknownFields bool
	// definition was read before the other fields. If the resource has changed between these reads, a
	// later check finds a different definition.
	definition definition
}

// errNotWatchable means that the upstream has no such resource, or that the resource cannot be
// listed and watched.
var errNotWatchable = errors.New("cannot be listed and watched")

const crdPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// typesMinor is the minor version of Kubernetes whose Go types are linked. It is the minor version
// of k8s.io/api.
const typesMinor = 37

// read returns the answer to a request, in JSON. It waits for at most d.timeout: a server or load
// balancer that accepts a request and does not answer must not block callers that would retry.
func (d discoverer) read(ctx context.Context, r *rest.Request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	return r.SetHeader("Accept", wire.ContentTypeJSON).DoRaw(ctx)
}

func (d discoverer) get(ctx context.Context, into any, path ...string) error {
	raw, err := d.read(ctx, d.client.Get().AbsPath(path...))
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// groupPath returns the path segments of a group version.
func groupPath(gv schema.GroupVersion) []string {
	if gv.Group == "" {
		return []string{"/api", gv.Version}
	}
	return []string{"/apis", gv.Group, gv.Version}
}

// preferredVersion returns the version that the upstream prefers in a group.
func (d discoverer) preferredVersion(ctx context.Context, name string) (string, error) {
	var group metav1.APIGroup
	if err := d.get(ctx, &group, "/apis", name); err != nil {
		return "", fmt.Errorf("group %s: %w", name, err)
	}
	return group.PreferredVersion.Version, nil
}

// discover returns the description of a resource, or an error if the proxy may not cache it.
func (d discoverer) discover(ctx context.Context, gvr schema.GroupVersionResource) (*resourceInfo, error) {
	if err := d.servedLocally(ctx, gvr.GroupVersion()); err != nil {
		return nil, err
	}
	var list metav1.APIResourceList
	if err := d.get(ctx, &list, groupPath(gvr.GroupVersion())...); err != nil {
		if apierrors.IsNotFound(err) {
			err = errors.Join(errNotWatchable, err)
		}
		return nil, err
	}
	i := slices.IndexFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == gvr.Resource })
	if i < 0 || !slices.Contains(list.APIResources[i].Verbs, "list") || !slices.Contains(list.APIResources[i].Verbs, "watch") {
		return nil, errNotWatchable
	}
	r := &list.APIResources[i]
	defined := d.definition(ctx, gvr) // read before everything that depends on it
	info := &resourceInfo{definition: defined, Resource: watchcache.Resource{GroupVersionResource: gvr, Kind: r.Kind, Namespaced: r.Namespaced}}
	return info, d.complete(ctx, info)
}

// complete sets the fields of info that depend on the linked Go type: the encoding, the type, the
// selectable fields and UnknownFields. If no Go type is linked, the encoding is JSON, and readCRD
// sets the selectable fields, the list kind and Custom.
func (d discoverer) complete(ctx context.Context, info *resourceInfo) error {
	info.encoding = wire.JSON
	object, err := scheme.Scheme.New(info.GroupVersionKind())
	if err != nil {
		return d.readCRD(ctx, info)
	}
	info.encoding, info.Type = wire.Protobuf, reflect.TypeOf(object).Elem()
	info.Fields = watchcache.BuiltinFields(info.GroupVersionKind())
	var v struct{ Minor string }
	if err := d.get(ctx, &v, "/version"); err != nil {
		return err
	}
	minor, err := strconv.Atoi(strings.TrimRight(v.Minor, "+"))
	info.UnknownFields = err != nil || minor > typesMinor
	return nil
}

// readCRD reads the selectable fields and the list kind from the CRD of a custom resource. If there
// is no CRD, or the proxy may not read it, readCRD reads the list kind from a list, and does not
// learn the selectable fields. The proxy then forwards requests that select by these fields. A list
// also shows whether the resource is a custom resource, or a built-in kind whose Go type is not
// linked.
func (d discoverer) readCRD(ctx context.Context, info *resourceInfo) error {
	var crd struct {
		Spec struct {
			Names    struct{ ListKind string }
			Versions []struct {
				Name             string
				SelectableFields []struct{ JSONPath string }
			}
		}
	}
	name := info.GroupVersionResource.Resource + "." + info.Group
	err := d.get(ctx, &crd, crdPath, name)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return d.readListKind(ctx, info)
	}
	info.Custom = true
	info.ListKind = crd.Spec.Names.ListKind // empty: the default list kind
	for _, v := range crd.Spec.Versions {
		if v.Name != info.Version {
			continue
		}
		for _, f := range v.SelectableFields {
			path := strings.TrimPrefix(f.JSONPath, ".")
			info.Fields = append(info.Fields, watchcache.Field{Label: path, Paths: []string{path}})
		}
	}
	return err
}

// readListKind reads the kind of a resource's lists from a LIST of one object. The LIST also shows
// whether the resource is a custom resource: only the lists of custom resources have their members
// in alphabetical order.
func (d discoverer) readListKind(ctx context.Context, info *resourceInfo) error {
	path := append(groupPath(info.GroupVersion()), info.GroupVersionResource.Resource)
	raw, err := d.read(ctx, d.client.Get().AbsPath(path...).Param("limit", "1"))
	if err != nil {
		return err
	}
	var list metav1.TypeMeta
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	info.ListKind = list.Kind
	info.Custom = !bytes.HasPrefix(raw, []byte(`{"kind":`))
	return nil
}

var (
	// errAggregated is returned for a resource of an aggregated API server, which is never cached.
	// Such a server may return different objects to two callers with the same permission, as OpenShift
	// does for projects.
	errAggregated = errors.New("it is served by an aggregated API server")
	// errUnknownOrigin is returned for a resource if the proxy cannot determine which server serves
	// it. The resource is not cached.
	errUnknownOrigin = errors.New("its APIService does not show that kube-apiserver itself serves it; the proxy needs permission to get apiservices.apiregistration.k8s.io")
)

const (
	aggregatorGroup = "/apis/apiregistration.k8s.io"
	apiServices     = aggregatorGroup + "/v1/apiservices"
)

// servedLocally returns nil if the upstream itself serves the group version, as it does for
// built-in kinds and custom resources. An upstream without an aggregator serves everything itself.
// Otherwise the error wraps errAggregated or errUnknownOrigin.
func (d discoverer) servedLocally(ctx context.Context, gv schema.GroupVersion) error {
	var service struct {
		metav1.TypeMeta
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct{ Service *struct{} }
	}
	name := gv.Version + "." + gv.Group
	err := d.get(ctx, &service, apiServices, name)
	switch {
	case err == nil && service.Spec.Service != nil:
		return errAggregated
	case err == nil && service.Kind == "APIService" && service.Name == name:
		return nil
	case apierrors.IsNotFound(err) && apierrors.IsNotFound(d.get(ctx, &metav1.APIGroup{}, aggregatorGroup)):
		return nil
	}
	return errors.Join(errUnknownOrigin, err)
}
