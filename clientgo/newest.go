package clientgo

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weirproject/weir/source"
)

// NewestVersion lists one object for the list's resourceVersion. It is called while a watch may be open, and so touches nothing of
// the body that is being read.
func (l *listWatch) NewestVersion(ctx context.Context, atLeast string) (string, error) {
	o := source.NewestOptions(atLeast)
	options := metav1.ListOptions{ResourceVersion: o.ResourceVersion, ResourceVersionMatch: o.Match, Limit: o.Limit}
	l.stats.Requests.Add(1)
	l.stats.Lists.Add(1)
	if l.uncaptured.Load() {
		return listVersion(l.lw.ListWithContext(ctx, options))
	}
	c := &capture{verb: list, context: ctx}
	object, err := l.lw.ListWithContext(c.with(ctx), options)
	resp := c.end()
	if err != nil || resp == nil {
		c.discard()
		return listVersion(object, err)
	}
	body, err := source.NewList(resp, source.Options{Stats: l.stats})
	if err != nil {
		return "", err
	}
	return source.ReadVersion(body)
}

// listVersion returns the resourceVersion of a decoded list.
func listVersion(object runtime.Object, err error) (string, error) {
	if err != nil {
		return "", err
	}
	head, err := meta.ListAccessor(object)
	if err != nil {
		return "", err
	}
	return head.GetResourceVersion(), nil
}
