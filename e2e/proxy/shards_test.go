package proxy

import (
	"context"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
	"github.com/weirproject/weir/proxy"
)

// shardText returns the shardSelector of one of count shards, escaped for a query.
func shardText(field string, index, count int64) string {
	bound := func(i int64) string {
		n := new(big.Int).Lsh(big.NewInt(i), 64)
		return fmt.Sprintf("0x%016x", n.Div(n, big.NewInt(count)))
	}
	return url.QueryEscape(fmt.Sprintf("shardRange(object.metadata.%s, '%s', '%s')", field, bound(index), bound(index+1)))
}

// unsaid is an intended difference: kube-apiserver does not report in every kind of list which
// shardSelector it has applied. The proxy always does.
var unsaid = &difference{"kube-apiserver tells of the shard in lists of built-in kinds alone", func(a *answer) {
	for _, body := range a.Bodies {
		if meta, ok := body.(map[string]any)["metadata"].(map[string]any); ok {
			delete(meta, "shardInfo")
		}
		if items, ok := body.(map[string]any)["items"].([]any); ok && len(items) == 0 {
			body.(map[string]any)["items"] = nil // as kube-apiserver does in a PartialObjectMetadataList
		}
	}
}}

// sharded are requests with a shardSelector.
var sharded = slices.Concat([]row{
	{query: "resourceVersion=0&shardSelector="},
	{query: "resourceVersion=0&shardSelector=nonsense", passed: invalid},
	{query: "resourceVersion=0&shardSelector=%20", passed: invalid},
	{query: "resourceVersion=0&shardSelector=shardRange(object.metadata.uid,'0x0','0x8')", passed: invalid},
	{query: "resourceVersion=0&shardSelector=shardRange(object.metadata.name,'0x0000000000000000','0x8000000000000000')", passed: invalid},
	{query: "resourceVersion=0&shardSelector=o." + shardText("uid", 0, 2), passed: invalid, only: "widgets", name: "a method of pods"},
	{query: "watch=true&timeoutSeconds=1&resourceVersion=0&shardSelector=nonsense", passed: invalid},
	{query: "watch=true&timeoutSeconds=1&resourceVersion={then}&shardSelector="},
}, shardedRows("{low}", 7), shardedRows("{high}", 7), shardedRows("{both}", 1), shardedRows("{home}", 1))

// shardedRows returns requests with one shardSelector: LISTs with different queries and WATCHes
// with different queries, each in several forms. The parameter most is the number of different LIST
// queries. It is also the number of different WATCH queries.
func shardedRows(selector string, most int) (rows []row) {
	for _, query := range []string{
		"resourceVersion=0", "", "resourceVersion={now}", "resourceVersion={then}&resourceVersionMatch=Exact", "resourceVersion=0&labelSelector=color%3Dred",
		"resourceVersion=0&fieldSelector=metadata.name%3Db", "resourceVersion=0&fieldSelector=metadata.name!%3Db&labelSelector=color",
	}[:most] {
		query := strings.TrimPrefix(query+"&shardSelector="+selector, "&")
		rows = append(rows,
			row{query: query, only: "pods"}, row{query: query, only: "pods", accept: protobufType},
			row{query: query, only: "pods", accept: jsonType + metadataList, differs: unsaid},
			row{query: query, only: "pods", accept: protobufType + metadataList, differs: unsaid},
			row{query: query, only: "widgets", differs: unsaid}, row{query: query, only: "widgets", accept: jsonType + metadataList, differs: unsaid})
	}
	for _, query := range []string{
		"resourceVersion={then}", "resourceVersion=0", "", "resourceVersion={then}&labelSelector=color%3Dblue", "resourceVersion={then}&fieldSelector=metadata.name%3Dc",
		"resourceVersion=0&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
		"sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
	}[:most] {
		query := "watch=true&timeoutSeconds=1&" + query + "&shardSelector=" + selector
		rows = append(rows, row{query: query}, row{query: query, only: "pods", accept: protobufType}, row{query: query, accept: jsonType + metadataOf})
	}
	return rows
}

// TestShards runs Weir's informers of four shards, from kube-apiserver and from the proxy, while
// pods are created and deleted. It checks that together the informers store each pod once, and that
// none receives an object of another shard.
func TestShards(t *testing.T) {
	ctx := begin(t)
	s := start(t, ctx, proxy.Options{Resources: []string{"pods"}})
	client := clientFor(t, shared.Config())
	served := metric(t, ctx, s, "weir_proxy_served_total")
	for name, cfg := range map[string]*rest.Config{"kube-apiserver": shared.Config(), "proxy": through(t, s, shared.Config())} {
		t.Run(name, func(t *testing.T) {
			infs, stop := startShards(t, ctx, cfg, 4)
			defer stop()
			defer func() {
				err := client.CoreV1().Pods("default").DeleteCollection(context.WithoutCancel(ctx), metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{})
				if err != nil {
					t.Error(err)
				}
			}()
			for n := range 40 {
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("shard-", n)}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
				if _, err := client.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				if n%2 == 0 {
					continue
				}
				check.NoError(t, client.CoreV1().Pods("default").Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
			}
			all, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
			check.NoError(t, err)
			testenv.Eventually(t, ctx, "the shards hold everything", func() bool { return holdEachOnce(t, infs, all.Items) })
			for i, inf := range infs {
				if st := inf.Status()[0]; st.OutOfShard > 0 || st.Err != nil {
					t.Errorf("shard %d: %s", i, st)
				}
			}
		})
	}
	if n := metric(t, ctx, s, "weir_proxy_served_total") - served; n < 8 {
		t.Errorf("the proxy has answered %v of the LISTs and WATCHes of four informers", n)
	}
}

// startShards runs an informer for each of count shards until stop is called. It returns after all
// have synced.
func startShards(t *testing.T, ctx context.Context, cfg *rest.Config, count int) (infs []*weir.Informer[*corev1.Pod], stop func()) {
	t.Helper()
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	stop = func() {
		cancel()
		running.Wait()
	}
	for i := range count {
		inf, err := weir.NewInformer[*corev1.Pod](cfg, weir.Options{Shard: weir.Shard{Index: i, Count: count}})
		if err != nil {
			stop()
			t.Fatal(err)
		}
		infs = append(infs, inf)
		running.Go(func() {
			if err := inf.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	for _, inf := range infs {
		if err := inf.WaitForSync(ctx); err != nil {
			stop()
			t.Fatal(err)
		}
	}
	return infs, stop
}

// holdEachOnce reports whether together the informers store each of the pods, and no other object.
// It fails the test if two informers store the same pod.
func holdEachOnce(t *testing.T, infs []*weir.Informer[*corev1.Pod], pods []corev1.Pod) bool {
	t.Helper()
	n, held := 0, 0
	for i := range pods {
		at := -1
		for j, inf := range infs {
			if item, ok := inf.Item(pods[i].Namespace + "/" + pods[i].Name); ok && item.UID() == string(pods[i].UID) {
				if at >= 0 {
					t.Fatalf("%s is in shard %d and %d", item.Key(), at, j)
				}
				at = j
				n++
			}
		}
	}
	for _, inf := range infs {
		held += inf.Len()
	}
	return n == len(pods) && held == n
}

// TestShardPages checks that the pages of a shard contain the same objects from the proxy as from
// kube-apiserver.
func TestShardPages(t *testing.T) {
	ctx := begin(t)
	s := start(t, ctx, proxy.Options{Resources: []string{"pods"}})
	for _, selector := range []string{shardText("uid", 1, 3), shardText("namespace", 0, 2), shardText("namespace", 1, 2)} {
		var lists [2][]string
		for i, cfg := range []*rest.Config{shared.Config(), through(t, s, shared.Config())} {
			text, err := url.QueryUnescape(selector)
			check.NoError(t, err)
			o := metav1.ListOptions{Limit: 37, ShardSelector: text}
			for more := true; more; more = o.Continue != "" {
				page, err := clientFor(t, cfg).CoreV1().Pods("").List(ctx, o)
				check.NoError(t, err)
				if page.ShardInfo == nil || page.ShardInfo.Selector != text || page.RemainingItemCount != nil {
					t.Errorf("metadata is %+v", page.ListMeta)
				}
				for _, p := range page.Items {
					lists[i] = append(lists[i], p.Namespace+"/"+p.Name)
				}
				o.Continue = page.Continue
			}
		}
		if named := strings.Contains(selector, "namespace"); !slices.Equal(lists[0], lists[1]) || !named && (len(lists[0]) == 0 || len(lists[0]) == pods) {
			t.Errorf("%s: kube-apiserver has %d pods, the proxy %d", selector, len(lists[0]), len(lists[1]))
		}
	}
}
