package clientgo

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/weirproject/weir/apiserver"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/testenv"
)

const waitTimeout = 2 * time.Minute

// constructor builds an informer, client-go's or Weir's.
type constructor func(cache.ListerWatcher, runtime.Object, time.Duration, cache.Indexers) cache.SharedIndexInformer

// newClientGo builds an informer of client-go, with the resync period noResync instead of 0.
func newClientGo(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(lw, example, cmp.Or(resync, noResync), indexers)
}

// bothConstructors contains the constructors whose informers must behave alike.
var bothConstructors = map[string]constructor{
	"client-go": newClientGo,
	"weir":      NewSharedIndexInformer,
}

// withOptions returns a constructor of Weir's informers with options.
func withOptions(opts Options) constructor {
	return func(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
		return NewSharedIndexInformerWithOptions(lw, example, resync, indexers, opts)
	}
}

// identity is a transform that changes nothing.
func identity(obj any) (any, error) { return obj, nil }

// identityOrNone contains the two ways to leave objects unchanged: no transform, and a transform
// that changes nothing.
var identityOrNone = map[string]cache.TransformFunc{"as it came": nil, "transformed": identity}

// run runs an informer until the test ends or calls stop.
func run(t *testing.T, inf cache.SharedInformer) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); inf.RunWithContext(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// runSynced runs an informer like run, and waits until it has synced.
func runSynced(t *testing.T, inf cache.SharedInformer) (stop func()) {
	t.Helper()
	stop = run(t, inf)
	synced(t, inf)
	return stop
}

// synced waits until informers, or handlers, have synced.
func synced(t *testing.T, waiting ...interface{ HasSynced() bool }) {
	t.Helper()
	timeout := time.After(waitTimeout)
	for _, s := range waiting {
		method := reflect.ValueOf(s).MethodByName("HasSyncedChecker")
		if !method.IsValid() { // before client-go v0.36
			// The sleep moves the clock of a synctest bubble.
			eventually(t, func() bool { time.Sleep(time.Millisecond); return s.HasSynced() })
			continue
		}
		select {
		case <-method.Call(nil)[0].Interface().(interface{ Done() <-chan struct{} }).Done():
		case <-timeout:
			t.Fatal("not synced")
		}
	}
}

func eventually(t *testing.T, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	for !cond() {
		if ctx.Err() != nil {
			t.Fatal("the condition never held")
		}
	}
}

func register(t *testing.T, inf cache.SharedInformer, handler cache.ResourceEventHandler) cache.ResourceEventHandlerRegistration {
	t.Helper()
	reg, err := inf.AddEventHandler(handler)
	check.NoError(t, err)
	return reg
}

// observe adds a recorder to an informer as a handler, and returns it.
func observe(t *testing.T, inf cache.SharedInformer) *recorder {
	t.Helper()
	calls := newRecorder()
	register(t, inf, calls)
	return calls
}

// survive turns utilruntime.ReallyCrash off until the test ends: panics of the program's functions
// are then only logged.
func survive(t *testing.T) {
	utilruntime.ReallyCrash = false
	t.Cleanup(func() { utilruntime.ReallyCrash = true })
}

// silent replaces utilruntime.ErrorHandlers by the argument handlers, and clears
// utilruntime.PanicHandlers, until the test ends. One of the default error handlers sleeps until
// some time after the last error, which would slow down tests.
func silent(t *testing.T, handlers ...utilruntime.ErrorHandler) {
	errorHandlers, panics := utilruntime.ErrorHandlers, utilruntime.PanicHandlers
	utilruntime.ErrorHandlers, utilruntime.PanicHandlers = handlers, nil
	t.Cleanup(func() { utilruntime.ErrorHandlers, utilruntime.PanicHandlers = errorHandlers, panics })
}

// logLines are the lines that a logger has received.
type logLines struct {
	mu    sync.Mutex
	lines []string
}

// withContext returns a context whose logger appends to the lines.
func (l *logLines) withContext(ctx context.Context) context.Context {
	return klog.NewContext(ctx, funcr.New(func(_, line string) { l.add(line) }, funcr.Options{}))
}

func (l *logLines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

// captured receives the lines of klog's global logger, unless it is nil.
var captured atomic.Pointer[logLines]

// captureLog makes klog's global logger append to the result until the test ends.
func captureLog(t *testing.T) *logLines {
	l := &logLines{}
	captured.Store(l)
	t.Cleanup(func() { captured.Store(nil) })
	return l
}

// uncaptured returns the lines that report that the informer does not capture responses.
func (l *logLines) uncaptured() []string { return l.containing("decoded objects") }

// containing returns the lines that contain a text.
func (l *logLines) containing(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.lines), func(line string) bool { return !strings.Contains(line, text) })
}

// runLogged runs an informer until it has stored the objects of its first list and received a new
// object from its watch. It returns the log lines that report that the informer does not capture
// responses.
func runLogged(t *testing.T, inf cache.SharedIndexInformer, client kubernetes.Interface, name string) []string {
	t.Helper()
	calls, log := newRecorder(), &logLines{}
	register(t, inf, calls)
	ctx, cancel := context.WithCancel(log.withContext(t.Context()))
	done := make(chan struct{})
	go func() { defer close(done); inf.RunWithContext(ctx) }()
	defer func() { cancel(); <-done }()
	synced(t, inf)
	made := create(t, client, configMap("one", name, nil))
	calls.wait(t, "add "+show(made))
	return log.uncaptured()
}

// contextless is a ListerWatcher without contexts, like older generated code.
type contextless struct {
	client typedcorev1.ConfigMapInterface
}

func (c contextless) List(o metav1.ListOptions) (runtime.Object, error) {
	return c.client.List(context.Background(), o)
}

func (c contextless) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return c.client.Watch(context.Background(), o)
}

// serve starts an API server that stops when the test ends.
func serve(t *testing.T, opts apiserver.Options) *apiserver.Server {
	t.Helper()
	opts.AnyNamespace = true
	server, err := apiserver.New(opts)
	if err == nil {
		err = server.Start()
	}
	check.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	return server
}

// capturing returns a copy of a config that was passed to Wrap.
func capturing(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	Wrap(cfg)
	return cfg
}

func newFactory(t *testing.T, cfg *rest.Config, opts ...Option) informers.SharedInformerFactory {
	t.Helper()
	return NewSharedInformerFactory(kubernetes.NewForConfigOrDie(cfg), 0, opts...)
}

// begin runs a factory until the test ends, and waits until its informers have synced.
func begin(t *testing.T, f informers.SharedInformerFactory) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f.Start(ctx.Done())
	t.Cleanup(func() { cancel(); f.Shutdown() })
	within, done := context.WithTimeout(ctx, waitTimeout)
	defer done()
	for of, synced := range f.WaitForCacheSync(within.Done()) {
		if !synced {
			t.Errorf("%s has not synced", of)
		}
	}
}

func configMap(namespace, name string, l map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: l},
		Data:       map[string]string{"name": name},
	}
}

// fill creates config maps on a server. It returns the client that it used.
func fill(t *testing.T, cfg *rest.Config, maps ...*corev1.ConfigMap) kubernetes.Interface {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(cfg)
	for _, m := range maps {
		create(t, client, m)
	}
	return client
}

func create(t *testing.T, client kubernetes.Interface, m *corev1.ConfigMap) *corev1.ConfigMap {
	t.Helper()
	made, err := client.CoreV1().ConfigMaps(m.Namespace).Create(context.Background(), m, metav1.CreateOptions{})
	check.NoError(t, err)
	return made
}

func pod(name, v string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, UID: "uid-1", Labels: map[string]string{"v": v}},
		Spec:       corev1.PodSpec{NodeName: "n" + v},
	}
}

func podAt(version, name, v string) *corev1.Pod {
	p := pod(name, v)
	p.ResourceVersion = version
	return p
}

func marshal(t testing.TB, m interface{ Marshal() ([]byte, error) }) []byte {
	t.Helper()
	raw, err := m.Marshal()
	check.NoError(t, err)
	return raw
}

// received returns a pod's bytes and metadata, as a reflector passes them to a sink.
func received(t *testing.T, p *corev1.Pod) (*wire.Meta, []byte) {
	t.Helper()
	raw, m := marshal(t, p), &wire.Meta{}
	check.NoError(t, wire.ReadMeta(wire.Protobuf, raw, m))
	return m, raw
}

// statusOf returns the Status that a server sends for an error.
func statusOf(err error) *metav1.Status {
	status := err.(apierrors.APIStatus).Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return &status
}

type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestMain(m *testing.M) {
	testenv.RelaxGC()
	if skipped != "" {
		_ = flag.Set("test.skip", skipped) // the flag exists
	}
	// Goroutines of earlier tests may read klog's logger, so tests do not replace it: see captureLog.
	klog.SetLoggerWithOptions(funcr.New(func(_, line string) {
		if l := captured.Load(); l != nil {
			l.add(line)
		} else {
			fmt.Fprintln(os.Stderr, line)
		}
	}, funcr.Options{}), klog.ContextualLogger(true))
	goleak.VerifyTestMain(m,
		// The tests' own clients leave idle connections: client-go shares them between clients and never
		// closes them.
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("internal/poll.runtime_pollWait"),
	)
}
