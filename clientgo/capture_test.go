package clientgo

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/testing/check"
)

// TestCaptureEncodings runs an informer with each encoding, with and without gzip. The informer
// must read the bodies, and the client must be able to decode the stub, the empty response that it
// receives.
func TestCaptureEncodings(t *testing.T) {
	server := serve(t, apiserver.Options{Pods: 300})
	for _, contentType := range []string{"", "application/json", "application/vnd.kubernetes.protobuf"} {
		for _, plain := range []bool{false, true} {
			t.Run(fmt.Sprintf("%q plain %v", contentType, plain), func(t *testing.T) {
				cfg := rest.CopyConfig(server.Config())
				cfg.ContentType, cfg.DisableCompression = contentType, plain
				inf := NewSharedIndexInformer(podsOf(capturing(cfg)), &corev1.Pod{}, 0, nil).(*informer)
				runSynced(t, inf)
				check.Equal(t, len(inf.GetStore().List()), 300, "pods")
				raw, body := inf.store.Memory().Raw, inf.stats.BodyBytes.Load()
				if raw == 0 || body < raw {
					t.Errorf("%d bytes held of %d that came: not captured", raw, body)
				}
				if inf.LastSyncResourceVersion() == "" {
					t.Error("no resourceVersion")
				}
			})
		}
	}
}

// TestNotCaptured checks when the informer uses the objects that the ListerWatcher returns: if the
// ListerWatcher sends several requests or adds to the response, or if Options.NoCapture is set.
func TestNotCaptured(t *testing.T) {
	server := serve(t, apiserver.Options{})
	fill(t, server.Config(), configMap("one", "a", nil), configMap("two", "b", nil), configMap("three", "c", nil))
	client := kubernetes.NewForConfigOrDie(capturing(server.Config())).CoreV1()
	lists := map[string]func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error){
		"merged": func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			one, err := client.ConfigMaps("one").List(ctx, o)
			if err != nil {
				return nil, err
			}
			two, err := client.ConfigMaps("two").List(ctx, o)
			if err != nil {
				return nil, err
			}
			one.Items = append(one.Items, two.Items...)
			return one, nil
		},
		"added to": func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			one, err := client.ConfigMaps("one").List(ctx, o)
			if err != nil {
				return nil, err
			}
			one.Items = append(one.Items, *configMap("two", "b", nil))
			return one, nil
		},
		"without the context": func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = "metadata.name!=c"
			return client.ConfigMaps("").List(context.Background(), o)
		},
		"filtered": func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			all, err := client.ConfigMaps("").List(ctx, o)
			if err == nil {
				all.Items = slices.DeleteFunc(all.Items, func(m corev1.ConfigMap) bool { return m.Name == "c" })
			}
			return all, err
		},
	}
	for name, list := range lists {
		t.Run(name, func(t *testing.T) {
			lw := &cache.ListWatch{ListWithContextFunc: list, WatchFuncWithContext: client.ConfigMaps("").Watch}
			inf := NewSharedIndexInformerWithOptions(lw, &corev1.ConfigMap{}, 0, nil, Options{NoCapture: name == "filtered"})
			runSynced(t, inf)
			check.Equal(t, strings.Join(inf.GetStore().ListKeys(), " "), "one/a two/b", "holds")
		})
	}
}

// TestCaptureLeavesAlone checks that a capture leaves two kinds of responses to the client:
// responses to requests of another verb than the capture's, and responses to LISTs whose context
// contains no capture.
func TestCaptureLeavesAlone(t *testing.T) {
	server := serve(t, apiserver.Options{})
	fill(t, server.Config(), configMap("one", "a", nil))
	client := kubernetes.NewForConfigOrDie(capturing(server.Config()))
	for _, v := range []verb{verbList, verbWatch} {
		c := &capture{verb: v, context: context.Background(), matcher: newResponseMatcher(&corev1.ConfigMap{}, nil)}
		ctx := withValue(context.Background(), c)
		if m, err := client.CoreV1().ConfigMaps("one").Get(ctx, "a", metav1.GetOptions{}); err != nil || m.Name != "a" {
			t.Errorf("get: %v, %v", m, err)
		}
		if err := client.Discovery().RESTClient().Get().AbsPath("/api/v1").Do(ctx).Error(); err != nil {
			t.Errorf("discovery: %v", err)
		}
		if v == verbWatch {
			if l, err := client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{}); err != nil || len(l.Items) != 1 {
				t.Errorf("a list in a capture of a watch: %v, %v", l, err)
			}
		}
		if c.end(); c.answer != nil {
			t.Errorf("captured %s", c.answer.Request.URL)
		}
	}
	if l, err := client.CoreV1().ConfigMaps("").List(context.Background(), metav1.ListOptions{}); err != nil || len(l.Items) != 1 {
		t.Errorf("a list without a capture: %v, %v", l, err)
	}
}

// TestCaptureDetached checks that the captured body outlives the caller's context, and that the
// request ends with the capture's context.
func TestCaptureDetached(t *testing.T) {
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[`)
		for i := range 40 {
			fmt.Fprintf(w, `{"metadata":{"name":"p%d","uid":"u","resourceVersion":"5"}},`, i)
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(ended)
	}))
	defer server.Close()
	client := kubernetes.NewForConfigOrDie(capturing(&rest.Config{Host: server.URL, Timeout: time.Minute}))
	ctx, cancel := context.WithCancel(context.Background())
	c := &capture{verb: verbList, context: ctx, matcher: newResponseMatcher(&corev1.Pod{}, nil)}
	callers, callerEnds := context.WithCancel(withValue(context.Background(), c))
	got, err := client.CoreV1().Pods("").List(callers, metav1.ListOptions{})
	if err != nil || len(got.Items) != 0 {
		t.Fatalf("%v, %v", got, err)
	}
	callerEnds()
	c.end()
	resp := c.answer
	if resp == nil {
		t.Fatal("not captured")
	}
	if n, err := resp.Body.Read(make([]byte, 100)); n == 0 {
		t.Errorf("read %d, %v", n, err)
	}
	cancel()
	select {
	case <-ended:
	case <-time.After(waitTimeout):
		t.Error("the request goes on after its stream's context")
	}
	_ = resp.Body.Close()
}

// TestCaptureCompression checks that the informer's requests follow DisableCompression of the
// config and of the innermost transport, even if the program sets it after Wrap.
func TestCaptureCompression(t *testing.T) {
	for name, test := range map[string]struct {
		tls  bool
		turn func(*rest.Config) *rest.Config // called after Wrap
		want string
	}{
		"on":  {true, func(cfg *rest.Config) *rest.Config { return cfg }, "gzip"},
		"off": {true, func(cfg *rest.Config) *rest.Config { cfg.DisableCompression = true; return cfg }, "identity"},
		"off in a copy": {true, func(cfg *rest.Config) *rest.Config {
			cfg = rest.CopyConfig(cfg)
			cfg.DisableCompression = true
			return cfg
		}, "identity"},
		"a transport's": {false, func(cfg *rest.Config) *rest.Config {
			cfg.Transport = &http.Transport{DisableCompression: true}
			return cfg
		}, "identity"},
		"another RoundTripper": {false, func(cfg *rest.Config) *rest.Config {
			cfg.Transport = opaque{}
			return cfg
		}, "gzip"}, // net/http requests it
		"another RoundTripper, off": {false, func(cfg *rest.Config) *rest.Config {
			cfg.Transport = opaque{}
			cfg.DisableCompression = true
			return cfg
		}, "identity"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan string, 1)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				select {
				case asked <- r.Header.Get("Accept-Encoding"):
				default:
				}
				w.WriteHeader(http.StatusNotFound)
			}))
			defer server.Close()
			defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
			if test.tls { // without TLS, client-go uses the default transport for any config
				server.StartTLS()
			} else {
				server.Start()
			}
			cfg := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: test.tls}}
			Wrap(cfg)
			cfg = test.turn(cfg)
			inf := NewSharedIndexInformer(podsOf(cfg), &corev1.Pod{}, 0, nil)
			stop := run(t, inf)
			check.Equal(t, <-asked, test.want, "asked for")
			stop()
			if transport, ok := cfg.Transport.(*http.Transport); ok {
				transport.CloseIdleConnections()
			}
		})
	}
}

// opaque is a RoundTripper without the method WrappedRoundTripper, so no caller can find the
// RoundTripper that it uses.
type opaque struct{}

func (opaque) RoundTrip(req *http.Request) (*http.Response, error) {
	return http.DefaultTransport.RoundTrip(req)
}

// TestRefusalAsContextEnds reads error responses whose context ends together with the last byte.
// The context's end closes the original body. The race detector checks that this does not touch the
// new body that the caller receives.
func TestRefusalAsContextEnds(t *testing.T) {
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		resp := &http.Response{Body: io.NopCloser(endsWith{strings.NewReader("no"), cancel})}
		readAhead(ctx, resp, maxRefusal)
		text, err := io.ReadAll(resp.Body)
		if err != nil || string(text) != "no" {
			t.Fatalf("read %q, %v", text, err)
		}
	}
}

// endsWith is a reader that calls end when it reaches EOF.
type endsWith struct {
	io.Reader
	end func()
}

func (r endsWith) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil {
		r.end()
	}
	return n, err
}
