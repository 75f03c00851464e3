package clientgo

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/testing/check"
)

// largestLimit is more than any limit that a program sends.
const largestLimit = 1 << 20

// withoutContexts returns a ListWatch like that of older generated code, whose client receives no
// context of the informer. change, which may be nil, changes the options of each call.
func withoutContexts[L runtime.Object](c client[L], change func(*metav1.ListOptions)) *cache.ListWatch {
	if change == nil {
		change = func(*metav1.ListOptions) {}
	}
	return &cache.ListWatch{
		//lint:ignore SA1019 older generated code sets it
		ListFunc: func(o metav1.ListOptions) (runtime.Object, error) {
			change(&o)
			return c.List(context.TODO(), o)
		},
		//lint:ignore SA1019 older generated code sets it
		WatchFunc: func(o metav1.ListOptions) (watch.Interface, error) {
			change(&o)
			return c.Watch(context.TODO(), o)
		},
	}
}

// marklessServer returns a config for a server, and fails the test if the server receives a mark.
// The limits of the requests are added to limits.
func marklessServer(t *testing.T, cfg *rest.Config, between func(next http.RoundTripper, req *http.Request) (*http.Response, error)) (*rest.Config, *limits) {
	seen := &limits{}
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripperFunc(func(req *http.Request) (*http.Response, error) {
			referer, err := url.Parse(req.Referer())
			check.NoError(t, err)
			for _, limit := range []string{req.URL.Query().Get("limit"), referer.Query().Get("limit")} {
				if n, _ := strconv.Atoi(limit); n > largestLimit {
					t.Errorf("a server has received the mark: %s, referred by %s", req.URL, req.Referer())
				}
			}
			seen.add(req.URL.Query().Get("limit"))
			if between != nil {
				return between(next, req)
			}
			return next.RoundTrip(req)
		})
	})
	return cfg, seen
}

// limits contains the limits of requests, in the order of the requests.
type limits struct {
	mu  sync.Mutex
	all []string
}

func (l *limits) add(limit string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, limit)
}

func (l *limits) get() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

// TestListerWatchersWithoutContexts checks that an informer captures the responses of
// ListerWatchers without contexts, of each sort of client. If the ListerWatcher changes the field
// that contains the mark, or the transport of its client is not wrapped, the informer must use
// decoded objects and log that. The server must never receive a mark.
func TestListerWatchersWithoutContexts(t *testing.T) {
	server := serve(t, apiserver.Options{})
	plain := fill(t, server.Config(), configMap("one", "a", nil), configMap("one", "b", nil))
	unwrapped, _ := marklessServer(t, server.Config(), nil)
	cfg := capturing(unwrapped)
	typed := kubernetes.NewForConfigOrDie(cfg).CoreV1().ConfigMaps("one")
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	partial := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
	fromClient := cache.NewListWatchFromClient(kubernetes.NewForConfigOrDie(cfg).CoreV1().RESTClient(), "configmaps", "one", fields.Everything())
	fromClient.ListWithContextFunc, fromClient.WatchFuncWithContext = nil, nil
	onlyWatch := withoutContexts(typed, nil)
	onlyWatch.ListWithContextFunc = listWatchOf(typed).ListWithContextFunc
	for name, test := range map[string]struct {
		lw       cache.ListerWatcher
		example  runtime.Object
		captured bool
	}{
		"methods":     {contextless{typed}, nil, true},
		"functions":   {withoutContexts(typed, nil), nil, true},
		"embedded":    {noWatchList{withoutContexts(typed, nil)}, nil, true},
		"dynamic":     {withoutContexts(dynamic.NewForConfigOrDie(cfg).Resource(configMaps).Namespace("one"), nil), object, true},
		"metadata":    {withoutContexts(metadata.NewForConfigOrDie(cfg).Resource(configMaps).Namespace("one"), nil), partial, true},
		"rest-client": {fromClient, nil, true},
		"only-watch":  {onlyWatch, nil, true},
		"selectors":   {withoutContexts(typed, func(o *metav1.ListOptions) { o.LabelSelector = "!absent" }), nil, true},
		"own-limit":   {withoutContexts(typed, func(o *metav1.ListOptions) { o.Limit = 0 }), nil, false},
		"own-options": {withoutContexts(typed, func(o *metav1.ListOptions) {
			*o = metav1.ListOptions{ResourceVersion: o.ResourceVersion, AllowWatchBookmarks: true}
		}), nil, false},
		"unwrapped": {withoutContexts(kubernetes.NewForConfigOrDie(unwrapped).CoreV1().ConfigMaps("one"), nil), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if test.example == nil {
				test.example = &corev1.ConfigMap{}
			}
			inf := NewSharedIndexInformer(test.lw, test.example, 0, nil).(*informer)
			lines := runLogged(t, inf, plain, "new-"+name)
			check.Equal(t, inf.stats.BodyBytes.Load() > 0, test.captured, "captured")
			check.Equal(t, inf.listWatch.markings[verbWatch].Load() == byMark, test.captured, "the watch was captured")
			if logged := strings.Join(lines, "\n"); test.captured && logged != "" || !test.captured && (len(lines) != 1 || !strings.Contains(logged, "mark")) {
				t.Errorf("logged %q", logged)
			}
		})
	}
}

// contextlessListWatch returns a listWatch of config maps without contexts.
func contextlessListWatch(cfg *rest.Config) *listWatch {
	typed := kubernetes.NewForConfigOrDie(cfg).CoreV1().ConfigMaps("one")
	return newListWatch(withoutContexts(typed, nil), newResponseMatcher(&corev1.ConfigMap{}, nil), &source.Stats{}, false)
}

// countItems returns the number of objects of a list, and whether the list was captured.
func countItems(t *testing.T, list source.List) (n int, captured bool) {
	t.Helper()
	defer list.Close()
	for {
		if _, err := list.Next(); err != nil {
			_, decoded := list.(*source.ObjectList)
			return n, !decoded
		}
		n++
	}
}

// TestMarksOfRepeatedRequests checks lists without contexts whose requests are redirected, refused
// or broken. The list must be captured, the server must not receive a mark, and an error must not
// contain one.
func TestMarksOfRepeatedRequests(t *testing.T) {
	server := serve(t, apiserver.Options{})
	fill(t, server.Config(), configMap("one", "a", nil), configMap("one", "b", nil))
	refuse := func(req *http.Request, code int, header, value string) *http.Response {
		return &http.Response{StatusCode: code, Header: http.Header{header: {value}}, Body: http.NoBody, Request: req}
	}
	for name, test := range map[string]struct {
		refuse func(*http.Request) (*http.Response, error)
		fails  bool
	}{
		"redirect": {func(req *http.Request) (*http.Response, error) {
			return refuse(req, http.StatusTemporaryRedirect, "Location", req.URL.String()), nil
		}, false},
		"relative": {func(req *http.Request) (*http.Response, error) {
			return refuse(req, http.StatusFound, "Location", "?redirected=true"), nil
		}, false},
		"retry-after": {func(req *http.Request) (*http.Response, error) {
			return refuse(req, http.StatusTooManyRequests, "Retry-After", "1"), nil
		}, true},
		"broken": {func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNRESET }, true},
		"failed": {func(*http.Request) (*http.Response, error) { return nil, errors.ErrUnsupported }, true},
	} {
		t.Run(name, func(t *testing.T) {
			var refuses atomic.Bool
			cfg, _ := marklessServer(t, server.Config(), func(next http.RoundTripper, req *http.Request) (*http.Response, error) {
				if refuses.CompareAndSwap(true, false) {
					return test.refuse(req)
				}
				return next.RoundTrip(req)
			})
			l := contextlessListWatch(capturing(cfg))
			for range 3 { // the first list is a test, and has no mark
				refuses.Store(true)
				list, err := l.List(t.Context(), metav1.ListOptions{})
				if test.fails {
					if err == nil || strings.Contains(err.Error(), "limit") {
						t.Errorf("the error is %v", err)
					}
					list, err = l.List(t.Context(), metav1.ListOptions{})
				}
				check.NoError(t, err)
				n, captured := countItems(t, list)
				check.Equal(t, n, 2, "objects")
				check.Equal(t, captured, true, "captured")
			}
		})
	}
}

// TestRequestsBesideMarks checks that marks do not affect other requests through the same
// transport. A request that a ListerWatcher sends after its call has returned must be unmarked too.
func TestRequestsBesideMarks(t *testing.T) {
	server := serve(t, apiserver.Options{})
	fill(t, server.Config(), configMap("one", "a", nil), configMap("one", "b", nil), configMap("one", "c", nil))
	cfg, seen := marklessServer(t, server.Config(), nil)
	cfg = capturing(capturing(cfg)) // twice, as in a program whose parts call Wrap
	l := contextlessListWatch(cfg)
	typed := kubernetes.NewForConfigOrDie(cfg).CoreV1().ConfigMaps("one")
	//lint:ignore SA1019 older generated code sets ListFunc
	l.lw = cache.ToListerWatcherWithContext(&cache.ListWatch{ListFunc: func(o metav1.ListOptions) (runtime.Object, error) {
		if l.markings[verbList].Load() != byMark {
			return typed.List(context.TODO(), o)
		}
		before := len(seen.get())
		n := 0
		err := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return typed.List(ctx, o) }).
			EachListItem(context.TODO(), metav1.ListOptions{Limit: 2}, func(runtime.Object) error { n++; return nil })
		check.NoError(t, err)
		check.Equal(t, n, 3, "objects of another request")
		check.Equal(t, strings.Join(seen.get()[before:], " "), "2 2", "limits of another request")
		mark := o
		list, err := typed.List(context.TODO(), o)
		marks.remove(mark.Limit)
		late, lateErr := typed.List(context.TODO(), mark)
		check.NoError(t, lateErr)
		check.Equal(t, len(late.Items), 3, "objects of a late request")
		return list, err
	}})
	for range 2 {
		list, err := l.List(t.Context(), metav1.ListOptions{Limit: 2})
		check.NoError(t, err)
		n, captured := countItems(t, list)
		check.Equal(t, n, 2, "objects of a page of two")
		check.Equal(t, captured, true, "captured")
	}
	check.Equal(t, len(marks.calls), 0, "active marked calls")
	version, err := l.NewestVersion(t.Context(), metav1.ListOptions{})
	if err != nil || version == "" {
		t.Errorf("the newest version is %q, %v", version, err)
	}
}

// TestMarkedListEnds checks that a LIST without a context ends when the informer stops.
func TestMarkedListEnds(t *testing.T) {
	server := serve(t, apiserver.Options{})
	var hangs atomic.Bool
	asked := make(chan struct{})
	cfg, _ := marklessServer(t, server.Config(), func(next http.RoundTripper, req *http.Request) (*http.Response, error) {
		if !hangs.Load() {
			return next.RoundTrip(req)
		}
		close(asked)
		<-req.Context().Done()
		return nil, context.Cause(req.Context())
	})
	l := contextlessListWatch(capturing(cfg))
	list, err := l.List(t.Context(), metav1.ListOptions{})
	check.NoError(t, err)
	_ = list.Close()
	hangs.Store(true)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-asked; cancel(errStopped) }()
	_, err = l.List(ctx, metav1.ListOptions{})
	check.ErrorIs(t, err, errStopped, "List")
	if errors.Is(err, source.ErrNotReturned) {
		t.Error("the ListerWatcher's List has not returned")
	}
}

// TestMarksWithoutTransport checks that an informer whose client's transport is not wrapped stores
// all objects, although its first request is for a page, and that a fake clientset receives the
// requests of a list and a watch only. The program has called Wrap for another client.
func TestMarksWithoutTransport(t *testing.T) {
	wrapped.Store(true)
	server := serve(t, apiserver.Options{Pods: 2000})
	cfg, seen := marklessServer(t, server.Config(), nil)
	pods := NewSharedIndexInformer(withoutContexts(kubernetes.NewForConfigOrDie(cfg).CoreV1().Pods(""), nil), &corev1.Pod{}, 0, nil)
	runSynced(t, pods)
	check.Equal(t, len(pods.GetStore().ListKeys()), 2000, "pods")
	page, err := strconv.Atoi(seen.get()[0])
	if err != nil || page < source.ProbePage || page >= 2000 {
		t.Errorf("the first page has %d objects: %v", page, err)
	}

	clientset := fake.NewClientset(configMap("one", "a", nil), configMap("two", "b", nil))
	inf := NewSharedIndexInformer(contextless{clientset.CoreV1().ConfigMaps("one")}, &corev1.ConfigMap{}, 0, nil)
	runSynced(t, inf)
	check.Equal(t, strings.Join(inf.GetStore().ListKeys(), " "), "one/a", "stored")
	lists := 0
	for _, action := range clientset.Actions() {
		if action.GetVerb() == "list" {
			lists++
		}
	}
	check.Equal(t, lists, 1, "lists of the fake clientset")
}
