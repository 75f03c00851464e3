package delivery

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirproject/weir/internal/core/codec"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testStore is a store with one writer, which the tests use as a reflector would.
type testStore struct {
	t      testing.TB
	store  *store.Store
	writer *store.Writer
	rv     int
	uid    types.UID
}

func newTestStore(t testing.TB, cfg store.Config) *testStore {
	cfg.Encoding = wire.Protobuf
	cfg.Decode = func(raw []byte, _ *codec.Version) (any, error) {
		pod := &corev1.Pod{}
		return pod, pod.Unmarshal(raw)
	}
	s := store.New(cfg)
	t.Cleanup(s.Close)
	return &testStore{t: t, store: s, writer: s.Writer(store.Scope{})}
}

// inBubble runs a test in virtual time, with a store.
func inBubble(t *testing.T, cfg store.Config, test func(t *testing.T, w *testStore)) {
	synctest.Test(t, func(t *testing.T) { test(t, newTestStore(t, cfg)) })
}

// run calls r.Run in a goroutine until the test ends.
func (w *testStore) run(r *Registration) {
	ctx, cancel := context.WithCancel(context.Background())
	go r.Run(ctx)
	w.t.Cleanup(func() { cancel(); <-r.Done() })
}

// follow adds a handler that runs until the test ends. It returns the log to which the handler
// appends its events.
func (w *testStore) follow(opts Options) (*Registration, *[]string) {
	var log []string
	r := New(w.store, func(_ context.Context, e store.Change) { log = append(log, line(e)) }, opts)
	w.run(r)
	return r, &log
}

// sync lists pods, like the first list of a reflector.
func (w *testStore) sync(names ...string) {
	w.writer.BeginReplace(false)
	for _, name := range names {
		w.put(name, "")
	}
	w.writer.EndReplace(strconv.Itoa(w.rv))
}

// put writes the next version of a pod with the label app.
func (w *testStore) put(name, app string) {
	w.write(name, app, w.writer.Put)
}

func (w *testStore) del(name string) { w.write(name, "", w.writer.Delete) }

// putWithUID writes the next version of a pod with a uid.
func (w *testStore) putWithUID(name, uid string) {
	w.uid = types.UID(uid)
	w.write(name, "", w.writer.Put)
}

func (w *testStore) write(name, app string, do func(*wire.Meta, []byte) error) {
	w.t.Helper()
	w.rv++
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, UID: w.uid, ResourceVersion: strconv.Itoa(w.rv)}}
	if app != "" {
		pod.Labels = map[string]string{"app": app}
	}
	raw, err := pod.Marshal()
	check.NoError(w.t, err)
	var m wire.Meta
	check.NoError(w.t, wire.ReadMeta(wire.Protobuf, raw, &m))
	check.NoError(w.t, do(&m, raw))
	w.writer.Flush()
}
