package clientgo

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/source"
)

// NewestVersion lists one object for the list's resourceVersion. It is called while a watch may be open, so nothing is captured,
// and nothing of the body that is being read is touched.
func (l *listWatch) NewestVersion(ctx context.Context, atLeast string) (string, error) {
	o := source.NewestOptions(atLeast)
	l.stats.Requests.Add(1)
	l.stats.Lists.Add(1)
	var after retryAfter
	object, err := l.lw.ListWithContext(after.with(ctx), metav1.ListOptions{
		ResourceVersion: o.ResourceVersion, ResourceVersionMatch: o.Match, Limit: o.Limit,
	})
	if err != nil {
		return "", after.restore(err)
	}
	head, err := meta.ListAccessor(object)
	if err != nil {
		return "", fmt.Errorf("List returned %T, which is no list: %w", object, err)
	}
	return head.GetResourceVersion(), nil
}
