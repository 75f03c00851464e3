package apiserver

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/weirproject/weir/internal/serve/watchcache"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestFieldLabels checks that the embedded server and kube-apiserver accept the same field
// selectors. It sends a LIST of every resource for every field that any resource supports.
func TestFieldLabels(t *testing.T) {
	ctx, _, ours, theirs := startBoth(t)
	client, err := discovery.NewDiscoveryClientForConfigAndClient(ours.config, ours.client)
	check.NoError(t, err)
	_, lists, err := client.ServerGroupsAndResourcesWithContext(ctx)
	check.NoError(t, err)
	lists = discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "watch"}}, lists)
	labels := map[string]bool{"metadata.name": true, "metadata.namespace": true, "metadata.uid": true}
	paths := map[string]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		check.NoError(t, err)
		for _, r := range list.APIResources {
			paths[resourcePath(gv, r.Name)] = true
			for _, f := range watchcache.BuiltinFields(gv.WithKind(r.Kind)) {
				labels[f.Label] = true
			}
		}
	}
	compared := 0
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if theirs.get(t, ctx, path, "").code == http.StatusNotFound {
			continue // kube-apiserver does not serve this version or feature by default
		}
		compared++
		for _, label := range slices.Sorted(maps.Keys(labels)) {
			selected := path + "?limit=1&fieldSelector=" + url.QueryEscape(label+"=x")
			if a, b := ours.get(t, ctx, selected, ""), theirs.get(t, ctx, selected, ""); !a.same(b) {
				t.Errorf("%s by %s: embedded %d, kube-apiserver %d: %.200s", path, label, a.code, b.code, b.text)
			}
		}
	}
	if compared < 50 || len(labels) < 30 {
		t.Errorf("%d kinds are compared by %d fields", compared, len(labels))
	}
}
