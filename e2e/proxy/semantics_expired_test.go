package proxy

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
	"github.com/weirproject/weir/proxy"
)

// expired are requests for a state that neither the proxy nor kube-apiserver has any more.
var expired = []row{
	{query: "continue={page}&limit=1", differs: words},
	{query: "continue={page}", differs: words},
	{query: "continue={page}", accept: protobufType, differs: words},
	{query: "resourceVersion={then}&resourceVersionMatch=Exact", passed: forgotten},
	{query: "resourceVersion={then}&limit=1", passed: forgotten},
	{query: "resourceVersion={then}&resourceVersionMatch=NotOlderThan"},
	{query: "watch=true&timeoutSeconds=1&resourceVersion={then}", passed: forgotten},
	{query: "watch=true&timeoutSeconds=1&resourceVersion={then}&allowWatchBookmarks=true", accept: protobufType, passed: forgotten},
	{query: "watch=true&timeoutSeconds=1&resourceVersion={then}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"},
}

// TestSemanticsExpired is like TestSemantics, but for resourceVersions and tokens that are too old.
// It compacts etcd and restarts the API server. The proxy has a small log, so it stores few old
// states.
func TestSemanticsExpired(t *testing.T) {
	ctx := begin(t)
	client := dynamicFor(t)
	makeNamespace(t, ctx, client)
	s := start(t, ctx, proxy.Options{Resources: []string{"pods"}, TrustCache: []string{"pods"}, LogBytes: 4096})
	theirs, ours := newServer(t, shared.Config()), newServer(t, through(t, s, shared.Config()))
	w := newWorld(t, ctx, client, podResource)
	for _, of := range []*server{theirs, ours} {
		of.settle(t, ctx, w)
		of.readPage(t, ctx, w)
	}
	tokens := map[*server]string{theirs: theirs.page["pods"], ours: ours.page["pods"]}
	for i := range 24 { // more states than a server stores for paged lists
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"grows":"%d-%s"}}}`, i, strings.Repeat("x", 1000))
		changed, err := w.objects.Patch(ctx, "e", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		check.NoError(t, err)
		if w.now, err = strconv.ParseUint(changed.GetResourceVersion(), 10, 64); err != nil {
			t.Fatal(err)
		}
		ours.settle(t, ctx, w)
		ours.readPage(t, ctx, w)
	}
	check.NoError(t, shared.Expire(ctx))
	testenv.Eventually(t, ctx, "the proxy is ready again", func() bool { return readyz(t, ctx, s) == http.StatusOK })
	theirs.settle(t, ctx, w)
	for of, token := range tokens {
		of.page["pods"] = token
	}
	var rows []*row
	for i := range expired {
		expired[i].name = expired[i].query + " " + expired[i].accept
		rows = append(rows, &expired[i])
	}
	answers := askAll(ctx, rows, w, ours, theirs)
	for i, r := range rows {
		t.Run(r.name, func(t *testing.T) { answers[i].compare(t, r) })
	}
	// The answer 410 contains a token that continues with the current state.
	for of, token := range tokens {
		var a answer
		body, err := of.once(ctx, &row{}, w, "continue="+token, &a)
		check.NoError(t, err)
		meta, _ := body["metadata"].(map[string]any)
		if of.page["pods"], _ = meta["continue"].(string); a.Code != http.StatusGone || of.page["pods"] == "" {
			t.Fatalf("%d, %v", a.Code, body)
		}
	}
	for _, query := range []string{"continue={page}", "continue={page}&limit=1"} {
		r := &row{query: query, inconsistent: true}
		answers := askAll(ctx, []*row{r}, w, ours, theirs)
		answers[0].compare(t, r)
	}
}
