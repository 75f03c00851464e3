package debugpage

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/clientgo"
	"github.com/weirproject/weir/debug"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
	"github.com/weirproject/weir/proxy"
)

// hush is a secret value that the page must not show.
const hush = "hunter2"

// world is a process with informers, a proxy, and a debug page that shows them.
type world struct {
	t      testing.TB
	client kubernetes.Interface
	page   string // address of the page
	proxy  *proxy.Server

	mu   sync.Mutex
	open map[string]int // requests to the page's server in progress, by path
}

// newWorld starts a world. Its embedded API server changes pods all the time.
func newWorld(t *testing.T) *world {
	t.Helper()
	server, err := apiserver.New(apiserver.Options{Pods: 2000, Seed: 1, Churn: 50})
	check.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	check.NoError(t, server.Start())
	cfg := rest.CopyConfig(server.Config())
	cfg.QPS = -1
	w := &world{t: t, open: map[string]int{}}
	if w.client, err = kubernetes.NewForConfig(cfg); err != nil {
		t.Fatal(err)
	}
	w.informers(server.Config())
	w.serveProxy(server)
	mux := http.NewServeMux()
	mux.Handle("/debug/weir/", w.count(http.StripPrefix("/debug/weir", debug.Handler())))
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	w.page = web.URL + "/debug/weir/"
	return w
}

// count returns a handler that calls the handler next. The returned handler counts the requests in
// progress, by path.
func (w *world) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		add := func(n int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.open[path] += n
		}
		add(1)
		defer add(-1)
		next.ServeHTTP(rw, r)
	})
}

// until waits until the number of requests in progress for a path is the wanted one.
func (w *world) until(path string, want int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	testenv.EventuallyNoError(w.t, ctx, fmt.Sprintf("%d requests for %s are being answered", want, path), func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if n := w.open["/debug/weir/"+path]; n != want {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
}

func (w *world) run(what func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		what(ctx)
	}()
	w.t.Cleanup(func() {
		cancel()
		<-done
	})
}

// informers starts several healthy informers, an informer whose handler blocks, and an informer
// whose server does not exist.
func (w *world) informers(cfg *rest.Config) {
	start(w, cfg, "pods", "reconcile", 10*time.Minute, func(context.Context, weir.Event[*corev1.Pod]) {})
	start(w, cfg, "secrets", "rotate", 0, func(context.Context, weir.Event[*corev1.Secret]) {})
	start(w, cfg, "configmaps", "blocked", 0, func(ctx context.Context, e weir.Event[*corev1.ConfigMap]) {
		if e.Key() == "default/stuck" {
			<-ctx.Done()
		}
	})
	start(w, &rest.Config{Host: "http://127.0.0.1:1"}, "lost", "never", 0, func(context.Context, weir.Event[*corev1.Node]) {})
	factory := clientgo.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(cfg), 0)
	dropIn := factory.Core().V1().Pods().Informer()
	if _, err := dropIn.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) {}}); err != nil {
		w.t.Fatal(err)
	}
	w.run(dropIn.RunWithContext)
}

func start[T weir.Object](w *world, cfg *rest.Config, name, handler string, resync time.Duration, handle func(context.Context, weir.Event[T])) {
	inf, err := weir.NewInformer[T](cfg, weir.Options{Name: name})
	check.NoError(w.t, err)
	if _, err := inf.Handle(handle, weir.HandlerOptions[T]{Name: handler, Resync: resync}); err != nil {
		w.t.Fatal(err)
	}
	w.run(func(ctx context.Context) { _ = inf.Run(ctx) })
}

// serveProxy starts a proxy that allows each request, and two informers that watch through the
// proxy.
func (w *world) serveProxy(server http.Handler) {
	upstream := httptest.NewServer(reviewing{server})
	w.t.Cleanup(upstream.Close)
	var err error
	w.proxy, err = proxy.New(w.t.Context(), proxy.Options{
		Upstream: &rest.Config{Host: upstream.URL}, Resources: []string{"pods", "configmaps"}, Authentication: proxy.Authentication{SkipLookup: true},
	})
	check.NoError(w.t, err)
	w.t.Cleanup(func() { _ = w.proxy.Close() })
	check.NoError(w.t, w.proxy.Start())
	w.held() // before that, the proxy forwards requests
	for user, agent := range map[string]string{"jane": "kubelet/v1.37", "joan": "controller/2"} {
		cfg := &rest.Config{Host: w.proxy.URL(), BearerToken: user, UserAgent: agent, TLSClientConfig: rest.TLSClientConfig{CAData: w.proxy.CAData()}}
		start(w, cfg, "through the proxy, "+user, "look", 0, func(context.Context, weir.Event[*corev1.Pod]) {})
	}
}

// held waits until the proxy has cached its resources.
func (w *world) held() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	testenv.Eventually(w.t, ctx, "the proxy holds its resources", func() bool { return w.current() == 2 })
}

// current returns how many resources the proxy has cached, according to the page's JSON.
func (w *world) current() (n int) {
	w.t.Helper()
	answer := httptest.NewRecorder()
	debug.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(w.t.Context(), http.MethodGet, "/informers", nil))
	var report struct {
		Proxies []struct{ Resources []struct{ State string } }
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &report); err != nil || len(report.Proxies) != 1 {
		w.t.Fatalf("%v: %s", err, answer.Body)
	}
	for _, r := range report.Proxies[0].Resources {
		if r.State == "current" {
			n++
		}
	}
	return n
}

// reviewing is an upstream API server. It authenticates each token as the user whose name equals
// the token, and allows every request.
type reviewing struct{ next http.Handler }

func (h reviewing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "reviews") {
		h.next.ServeHTTP(w, r)
		return
	}
	r.Header.Set("Accept", "application/json")
	var answer any
	switch {
	case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
		answer = review(w, r, func(o *authenticationv1.TokenReview) {
			o.Status.Authenticated, o.Status.User.Username = true, o.Spec.Token
		})
	default:
		answer = review(w, r, func(o *authorizationv1.SubjectAccessReview) { o.Status.Allowed = true })
	}
	if answer != nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(answer)
	}
}

// review decodes a review from the request. It calls the function decide, which fills in the status
// of the review, and returns the review. On a decoding error, review answers 400 and returns nil.
func review[T any](w http.ResponseWriter, r *http.Request, decide func(*T)) any {
	o := new(T)
	if err := json.NewDecoder(r.Body).Decode(o); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return nil
	}
	decide(o)
	return o
}

// configMap creates a ConfigMap, or changes its value if it exists.
func (w *world) configMap(name, value string) {
	w.t.Helper()
	maps := w.client.CoreV1().ConfigMaps("default")
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"colour": value}}
	if _, err := maps.Create(w.t.Context(), m, metav1.CreateOptions{}); err == nil {
		return
	}
	if _, err := maps.Update(w.t.Context(), m, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}
