package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestInformers checks that the stores of client-go's informers equal a LIST after churn of
// simulated pods, compactions and closed connections.
func TestInformers(t *testing.T) {
	for _, watchList := range []bool{false, true} {
		t.Run(fmt.Sprintf("WatchList=%v", watchList), func(t *testing.T) {
			featurestesting.SetFeatureDuringTest(t, features.WatchListClient, watchList)
			faults := &apiserver.Faults{}
			withTestServer(t, apiserver.Options{Pods: 200, Churn: 10, Faults: faults}, func(t *testing.T, ts *testServer) {
				lists := 0
				faults.Add(apiserver.Rule{Times: 1, Match: countThen(&lists, apiserver.Match("list", "pods"))})
				ctx, stop := context.WithCancel(context.Background())
				gvr := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
				var factories []interface{ Shutdown() }
				stores := map[string]cache.Store{}
				for name, client := range map[string]kubernetes.Interface{"json": ts.typed, "protobuf": ts.protobuf} {
					f := informers.NewSharedInformerFactory(client, 0)
					stores[name] = f.Core().V1().Pods().Informer().GetStore()
					f.Start(ctx.Done())
					f.WaitForCacheSync(ctx.Done())
					factories = append(factories, f)
				}
				df := dynamicinformer.NewDynamicSharedInformerFactory(ts.dynamic, 0)
				stores["dynamic"] = df.ForResource(gvr).Informer().GetStore()
				df.Start(ctx.Done())
				df.WaitForCacheSync(ctx.Done())
				factories = append(factories, df)

				for range 3 {
					time.Sleep(5 * time.Second) // in the bubble's time
					ts.server.Compact()
					ts.transport.CloseIdleConnections()
					faults.Add(apiserver.Rule{Match: apiserver.Match("watch", "pods"), Cut: new(int64(20_000)), Times: 3})
				}
				time.Sleep(20 * time.Second)
				if watchList && lists > 0 {
					t.Errorf("%d LISTs although it streams", lists)
				}
				compareStores(t, ts, stores)
				stop()
				for _, f := range factories {
					f.Shutdown()
				}
			})
		})
	}
}

// countThen returns a function for Rule.Match. It counts in n the requests for which match returns
// true. It always returns false, so a rule with this function applies to no request.
func countThen(n *int, match func(r *http.Request) bool) func(r *http.Request) bool {
	return func(r *http.Request) bool {
		if match(r) {
			*n++
		}
		return false
	}
}

// compareStores stops the churn, waits until the informers have received all events, and then
// compares each object.
func compareStores(t *testing.T, ts *testServer, stores map[string]cache.Store) {
	t.Helper()
	ts.server.StopChurn()
	synctest.Wait()
	list, err := ts.typed.CoreV1().Pods("").List(context.Background(), metav1.ListOptions{})
	check.NoError(t, err)
	check.Equal(t, len(list.Items), 200, "the churn has left pods")
	for name, store := range stores {
		check.Equal(t, len(store.ListKeys()), len(list.Items), "%s: pods", name)
		for i := range list.Items {
			pod := &list.Items[i]
			got, ok, err := store.GetByKey(pod.Namespace + "/" + pod.Name)
			if err != nil || !ok {
				t.Fatalf("%s: no %s (%v)", name, pod.Name, err)
			}
			if v := got.(metav1.Object).GetResourceVersion(); v != pod.ResourceVersion {
				t.Fatalf("%s: %s at %s, want %s", name, pod.Name, v, pod.ResourceVersion)
			}
			if typed, ok := got.(*corev1.Pod); ok && !semanticEqual(typed, pod) {
				t.Fatalf("%s: %s differs", name, pod.Name)
			}
		}
	}
}
