package clientgo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/testing/check"
)

// byPager returns a ListerWatcher whose List reads page after page, with client-go's pager. The
// page size is the limit that List receives.
func byPager(list pager.ListPageFunc) *cache.ListWatch {
	pages := pager.New(list)
	return &cache.ListWatch{ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		all, _, err := pages.List(ctx, o)
		return all, err
	}}
}

func typedPager(cfg *rest.Config) *cache.ListWatch {
	return byPager(listWatchOf(kubernetes.NewForConfigOrDie(cfg).CoreV1().ConfigMaps("")).ListWithContext)
}

// TestProbeOfPages uses a List that reads page after page. For a probe, this List must send only
// one LIST, and NewestVersion must return the resourceVersion of the page that the server returns.
// A List that sets another limit must receive every page.
func TestProbeOfPages(t *testing.T) {
	for name, test := range map[string]struct {
		contentType string
		build       func(cfg *rest.Config) *cache.ListWatch
		want        int64 // number of LISTs
	}{
		"client-go's pager":           {runtime.ContentTypeJSON, typedPager, 1},
		"client-go's pager, protobuf": {runtime.ContentTypeProtobuf, typedPager, 1},
		"client-go's pager, unstructured": {"", func(cfg *rest.Config) *cache.ListWatch {
			return byPager(listWatchOf(dynamic.NewForConfigOrDie(cfg).Resource(configMaps)).ListWithContext)
		}, 1},
		"a loop": {"", func(cfg *rest.Config) *cache.ListWatch {
			return paging(cfg, func(o metav1.ListOptions) metav1.ListOptions { return o })
		}, 1},
		"a limit of its own": {"", func(cfg *rest.Config) *cache.ListWatch {
			return paging(cfg, func(o metav1.ListOptions) metav1.ListOptions { o.Limit = 2; return o })
		}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			faults := &apiserver.Faults{}
			server := serve(t, apiserver.Options{Faults: faults})
			client := fill(t, server.Config())
			for i := range 10 {
				create(t, client, configMap("one", fmt.Sprint("m", i), nil))
			}
			all, err := client.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
			check.NoError(t, err)
			lists, n := apiserver.Match("list", "configmaps"), atomic.Int64{}
			faults.Add(apiserver.Rule{Match: func(r *http.Request) bool {
				if lists(r) {
					n.Add(1)
				}
				return false
			}})
			cfg := capturing(server.Config())
			cfg.ContentType = test.contentType
			l := newListWatch(test.build(cfg), newResponseMatcher(&corev1.ConfigMap{}, nil), &source.Stats{}, false)
			for range 2 {
				n.Store(0)
				rv, err := l.NewestVersion(t.Context(), metav1.ListOptions{})
				if err != nil || rv != all.ResourceVersion {
					t.Errorf("the newest resourceVersion is %q, %v, want %s", rv, err, all.ResourceVersion)
				}
				check.Equal(t, n.Load(), test.want, "LISTs")
			}
		})
	}
}

// TestProbeLimit checks the limits of probes with a client whose config was not passed to Wrap. If
// a List seems to read page after page, the next probe must have a larger limit. After a List that
// read one page, the limit must be 1 again.
func TestProbeLimit(t *testing.T) {
	for name, test := range map[string]struct {
		pages   bool // List reads page after page
		objects int
		delay   func(request int) time.Duration
		want    []int64 // limits of the requests
	}{
		"one page":         {false, 50, nil, []int64{1, 1, 1}},
		"one page, slowly": {false, 600, func(n int) time.Duration { return time.Minute / time.Duration(n*n*n) }, []int64{1, 500, 1}},
		"all pages":        {true, 3, nil, []int64{1, 1, 1, 500, 500}},
		"all pages, slowly": {true, 50, func(int) time.Duration { return 4 * time.Second },
			[]int64{1, 1, 1, 500, 500}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var limits []int64
				list := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
					limits = append(limits, o.Limit)
					if test.delay != nil {
						select {
						case <-time.After(test.delay(len(limits))):
						case <-ctx.Done():
							return nil, ctx.Err()
						}
					}
					return pageOf(test.objects, o), nil
				}
				lw := &cache.ListWatch{ListWithContextFunc: list}
				if test.pages {
					lw = byPager(list)
				}
				l := newListWatch(lw, newResponseMatcher(&corev1.ConfigMap{}, nil), &source.Stats{}, false)
				for range 3 {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					if rv, err := l.NewestVersion(ctx, metav1.ListOptions{}); err == nil && rv != "7" {
						t.Errorf("the newest resourceVersion is %q", rv)
					}
					cancel()
				}
				if !slices.Equal(limits, test.want) {
					t.Errorf("requests with the limits %d, want %d", limits, test.want)
				}
			})
		})
	}
}

// TestSlowProbe checks that the probe after an unanswered probe has the limit 1 too. The client's
// config was passed to Wrap, so the informer knows that the List did not read page after page.
func TestSlowProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limits []string
		cfg := &rest.Config{Host: "http://server", Transport: roundTripperFunc(func(r *http.Request) (*http.Response, error) {
			limits = append(limits, r.URL.Query().Get("limit"))
			<-r.Context().Done()
			return nil, r.Context().Err()
		})}
		Wrap(cfg)
		client := kubernetes.NewForConfigOrDie(cfg)
		l := newListWatch(listWatchOf(client.CoreV1().Pods("")), newResponseMatcher(&corev1.Pod{}, nil), &source.Stats{}, false)
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := l.NewestVersion(ctx, metav1.ListOptions{}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the probe ended with %v", err)
			}
			cancel()
			synctest.Wait()
		}
		if want := []string{"1", "1"}; !slices.Equal(limits, want) {
			t.Errorf("requests with the limits %q, want %q", limits, want)
		}
	})
}

// TestProbeLimitRecovers uses a client whose config was passed to Wrap. After a probe with a larger
// limit, the next probe must have the limit 1 again.
func TestProbeLimitRecovers(t *testing.T) {
	server := serve(t, apiserver.Options{})
	fill(t, server.Config(), configMap("one", "a", nil), configMap("one", "b", nil))
	cfg, seen := marklessServer(t, server.Config(), nil)
	l := newListWatch(typedPager(capturing(cfg)), newResponseMatcher(&corev1.ConfigMap{}, nil), &source.Stats{}, false)
	_, err := l.prober.NewestVersion(t.Context(), metav1.ListOptions{}, nil, func(context.Context, metav1.ListOptions) (runtime.Object, error) {
		return pageOf(2, metav1.ListOptions{Limit: 2}), nil // a List that reads page after page
	})
	check.NoError(t, err)
	for range 2 {
		_, err := l.NewestVersion(t.Context(), metav1.ListOptions{})
		check.NoError(t, err)
	}
	check.Equal(t, strings.Join(seen.get(), " "), "500 1", "limits")
}

// pageOf returns the page that o requests from a list of the given number of objects. The continue
// token is the index of the next page's first object.
func pageOf(objects int, o metav1.ListOptions) *corev1.ConfigMapList {
	at := 0
	_, _ = fmt.Sscan(o.Continue, &at)
	page := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
	for ; at < objects && int64(len(page.Items)) < o.Limit; at++ {
		page.Items = append(page.Items, *configMap("one", fmt.Sprint("m", at), nil))
	}
	if at < objects {
		page.Continue = fmt.Sprint(at)
	}
	return page
}
