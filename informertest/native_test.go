package informertest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir"
	"github.com/weirproject/weir/informertest"
	"github.com/weirproject/weir/internal/testing/testenv"
)

// native adapts Weir's typed informer to the suite.
type native struct {
	*weir.Informer[*corev1.Pod]
	resync time.Duration
}

func (n *native) Run(ctx context.Context) {
	// Run may return ErrRunning or ErrHandlerStuck. The suite detects a second Run and a stuck handler
	// without these errors.
	_ = n.Informer.Run(ctx)
}

func newNative(mode weir.Mode, change ...func(*weir.Options)) func(*rest.Config, informertest.Options) (informertest.Informer, error) {
	return func(cfg *rest.Config, o informertest.Options) (informertest.Informer, error) {
		if o.Transform != nil {
			return nil, errors.New(noTransforms)
		}
		if o.ListerWatcher != nil {
			return nil, errors.New(noListerWatchers)
		}
		opts := weir.Options{
			Indexes:   map[string]weir.Index{},
			ListWatch: weir.ListWatch{Mode: mode},
			OnPanic:   func(*weir.PanicError) {},
		}
		for name, f := range o.Indexes {
			opts.Indexes[name] = byFunc(f)
		}
		for _, f := range change {
			f(&opts)
		}
		inf, err := weir.NewInformer[*corev1.Pod](cfg, opts)
		if err != nil {
			return nil, fmt.Errorf("weir: %w", err)
		}
		return &native{inf, o.Resync}, nil
	}
}

func byFunc(f informertest.IndexFunc) weir.Index {
	return weir.ByFunc(func(p *corev1.Pod) ([]string, error) { return f(p), nil })
}

func (n *native) Handle(h informertest.Handler, o informertest.HandlerOptions) (informertest.Registration, error) {
	opts := weir.HandlerOptions[*corev1.Pod]{Resync: n.resync}
	if o.Resync > 0 {
		opts.Resync = o.Resync
	}
	t := eventAdapter{h, map[string]weir.Item[*corev1.Pod]{}}
	reg, err := n.Informer.Handle(func(_ context.Context, e weir.Event[*corev1.Pod]) { t.handle(e) }, opts)
	if err != nil {
		return nil, err
	}
	return nativeRegistration{reg}, nil
}

// eventAdapter passes events of Weir's informer to a handler of the suite. Weir's handlers also
// receive versions that cannot be decoded, which the suite does not expect. So eventAdapter omits
// such a version, and passes the next version that can be decoded.
type eventAdapter struct {
	informertest.Handler
	// undecoded has an entry for each object whose current version cannot be decoded. The entry is the
	// last version of the object that could be decoded, or the zero Item if there is none.
	undecoded map[string]weir.Item[*corev1.Pod]
}

func (t eventAdapter) handle(e weir.Event[*corev1.Pod]) {
	last, neverDelivered := e.OldItem(), false
	if item, ok := t.undecoded[e.Key()]; ok {
		last, neverDelivered = item, item.IsZero()
	}
	pod, err := e.Object()
	switch {
	case e.Type == weir.Deleted:
		delete(t.undecoded, e.Key())
		if t.Deleted != nil && !neverDelivered {
			t.Deleted(decoded(last))
		}
		return
	case err != nil:
		t.undecoded[e.Key()] = last
		return
	}
	delete(t.undecoded, e.Key())
	switch {
	case e.Type == weir.Resynced && t.Updated != nil:
		t.Updated(pod, pod)
	case (e.Type == weir.Added || neverDelivered) && t.Added != nil:
		t.Added(pod, e.Initial)
	case e.Type == weir.Updated && t.Updated != nil:
		t.Updated(decoded(last), pod)
	}
}

// decoded returns an item's object. If the object cannot be decoded, it returns a pod with only the
// namespace, name, uid and resourceVersion.
func decoded(i weir.Item[*corev1.Pod]) *corev1.Pod {
	pod, err := i.Object()
	if err != nil {
		pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: i.Namespace(), Name: i.Name(), UID: types.UID(i.UID()), ResourceVersion: i.ResourceVersion(),
		}}
	}
	return pod
}

type nativeRegistration struct{ *weir.Registration }

func (r nativeRegistration) Remove() error {
	r.Registration.Remove()
	return nil
}

func (n *native) ResourceVersions() map[string]string {
	rvs := map[string]string{}
	for i := range n.Snapshot().Items() {
		rvs[i.Key()] = i.ResourceVersion()
	}
	return rvs
}

func (n *native) Get(key string) (*corev1.Pod, bool) {
	pod, err := n.Informer.Get(key)
	return pod, err == nil
}

func (n *native) AddIndex(name string, f informertest.IndexFunc) error {
	return n.Informer.AddIndex(name, byFunc(f))
}

func (n *native) ByIndex(name, value string) ([]string, error) {
	var keys []string
	for i, err := range n.Informer.ItemsBy(name, value) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, i.Key())
	}
	return keys, nil
}

// nativeFails has the stories that Weir's typed informer fails on purpose.
var nativeFails = map[string]string{
	"DeletedFinalState": "a deletion is delivered with the version that the handler saw last, which costs nothing to keep",

	"Transform":            noTransforms,
	"TransformOnRelist":    noTransforms,
	"TransformOnRestore":   noTransforms,
	"TransformFreesMemory": noTransforms,

	"DependentList": noListerWatchers,
	"BlockedList":   noListerWatchers,
}

const noTransforms = "its objects are the server's; Options.DropFields drops fields without decoding"

const noListerWatchers = "it sends its requests itself"

func TestNative(t *testing.T) {
	testenv.SkipUnderRace(t)
	informertest.Run(t, informertest.Rig{Name: "weir, natively", New: newNative(weir.ModeAuto), Fails: nativeFails})
}

func TestNativeWatchList(t *testing.T) {
	informertest.Run(t, informertest.Rig{Name: "weir, natively, with initial events", New: newNative(weir.ModeWatchList), Fails: nativeFails})
}
