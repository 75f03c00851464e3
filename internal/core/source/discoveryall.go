package source

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"slices"
	"strings"
	"sync"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// aggregated contains the media types of responses that contain all resources of all groups.
// Servers since 1.30 support the first type, and servers since 1.27 the second. Both forms have the
// same fields. Older servers ignore these types and respond as to a request for plain JSON: only
// with the groups and their versions.
var aggregated = []string{
	"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
	"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
}

// maxAsked is the maximum number of group versions that are requested at the same time.
const maxAsked = 16

// groupVersion is a version of a group.
type groupVersion struct {
	schema.GroupVersion
	resources *metav1.APIResourceList // nil if not received yet
	err       error                   // why resources is nil
}

// All requests all resources and subresources. It returns one list for each version of each group.
// The groups are in the server's order, with the core group first. In each group, the preferred
// version is first. If it cannot get some of the lists, it returns the other lists and an error.
func (c *Discovery) All(ctx context.Context) ([]*metav1.APIResourceList, error) {
	versions, err := c.versions(ctx, "/api", func() any { return &metav1.APIVersions{} })
	if err != nil && !apierrors.IsNotFound(err) { // aggregated API servers have no core group
		return nil, err
	}
	named, err := c.versions(ctx, "/apis", func() any { return &metav1.APIGroupList{} })
	if err != nil {
		return nil, err
	}
	versions = append(versions, named...)
	c.askForMissing(ctx, versions)
	var lists []*metav1.APIResourceList
	var failed []error
	for _, v := range versions {
		if v.err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", v.GroupVersion, v.err))
			continue
		}
		lists = append(lists, v.resources)
	}
	return lists, errors.Join(failed...)
}

// askForMissing requests the resources of the versions that have neither resources nor an error.
func (c *Discovery) askForMissing(ctx context.Context, versions []groupVersion) {
	slots := make(chan struct{}, maxAsked)
	var asked sync.WaitGroup
	for i := range versions {
		v := &versions[i]
		if v.resources != nil || v.err != nil {
			continue
		}
		slots <- struct{}{}
		asked.Go(func() { // this goroutine ends with its request
			v.resources, v.err = c.request(ctx, v.GroupVersion, c.retries)
			<-slots
		})
	}
	asked.Wait()
}

// versions requests the groups below a path. If the response is not aggregated, versions decodes it
// into the value that the function plain returns.
func (c *Discovery) versions(ctx context.Context, path string, plain func() any) ([]groupVersion, error) {
	answer, err := c.get(ctx, path, strings.Join(aggregated, ",")+","+runtime.ContentTypeJSON, c.retries, func(contentType string) any {
		if isAggregated(contentType) {
			return &apidiscovery.APIGroupDiscoveryList{}
		}
		return plain()
	})
	if err != nil {
		return nil, err
	}
	var versions []groupVersion
	switch answer := answer.(type) {
	case *apidiscovery.APIGroupDiscoveryList:
		for i := range answer.Items {
			versions = appendAggregated(versions, &answer.Items[i])
		}
	case *metav1.APIVersions:
		for _, v := range answer.Versions {
			versions = append(versions, groupVersion{GroupVersion: schema.GroupVersion{Version: v}})
		}
	case *metav1.APIGroupList:
		for i := range answer.Groups {
			versions = appendGroup(versions, &answer.Groups[i])
		}
	}
	return versions, nil
}

// isAggregated reports whether contentType is an aggregated media type. Its parameters may be in
// any order, and it may have additional parameters.
func isAggregated(contentType string) bool {
	is, has, err := mime.ParseMediaType(contentType)
	return err == nil && slices.ContainsFunc(aggregated, func(mediaType string) bool {
		want, params, _ := mime.ParseMediaType(mediaType)
		for name, value := range params {
			if has[name] != value {
				return false
			}
		}
		return is == want
	})
}

// appendGroup appends the versions of a group. The preferred version is the first.
func appendGroup(versions []groupVersion, g *metav1.APIGroup) []groupVersion {
	first := len(versions)
	for _, v := range g.Versions {
		named := groupVersion{GroupVersion: schema.GroupVersion{Group: g.Name, Version: v.Version}}
		if v.Version == g.PreferredVersion.Version {
			versions = slices.Insert(versions, first, named)
		} else {
			versions = append(versions, named)
		}
	}
	return versions
}
