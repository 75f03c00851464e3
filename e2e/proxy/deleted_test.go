package proxy

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/weirproject/weir/e2e/cluster"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
	"github.com/weirproject/weir/proxy"
)

// TestDeletedDefinition: after a custom resource was deleted, a LIST of any state through the proxy
// is 404 soon after kube-apiserver's own answer is. The log has the times.
func TestDeletedDefinition(t *testing.T) {
	ctx := begin(t)
	direct := dynamicFor(t)
	define(t, ctx, direct)
	s := start(t, ctx, proxy.Options{Resources: []string{"widgets." + widgetGroup}})
	cfg := through(t, s, shared.Config())
	client, err := dynamic.NewForConfigAndClient(cfg, cluster.HTTPClient(t, cfg))
	check.NoError(t, err)
	missing := func(c dynamic.Interface) bool {
		_, err := c.Resource(widgetResource).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		return apierrors.IsNotFound(err)
	}
	if missing(client) {
		t.Fatal("it is not served")
	}
	check.NoError(t, direct.Resource(definitions).Delete(ctx, "widgets."+widgetGroup, metav1.DeleteOptions{}))
	deleted := time.Now()
	testenv.Eventually(t, ctx, "kube-apiserver answers 404", func() bool { return missing(direct) })
	own := time.Since(deleted)
	testenv.Eventually(t, ctx, "the proxy answers 404", func() bool { return missing(client) })
	t.Logf("kube-apiserver after %v, the proxy after %v", own, time.Since(deleted))
}
