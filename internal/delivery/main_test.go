package delivery

import (
	"strconv"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirproject/weir/internal/store"
	"github.com/weirproject/weir/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a store with one writer, as a reflector would use it.
type world struct {
	t     testing.TB
	store *store.Store
	w     *store.Writer
	rv    int
	uid   types.UID
}

func newWorld(t testing.TB, cfg store.Config) *world {
	cfg.Encoding = wire.Protobuf
	cfg.Decode = func(raw []byte) (any, error) {
		pod := &corev1.Pod{}
		return pod, pod.Unmarshal(raw)
	}
	s := store.New(cfg)
	return &world{t: t, store: s, w: s.Writer(store.Scope{})}
}

// sync ends the first list.
func (w *world) sync(names ...string) {
	w.w.BeginReplace(false)
	for _, name := range names {
		w.put(name, "")
	}
	w.w.EndReplace(strconv.Itoa(w.rv))
}

// put writes the next version of a pod with the label app.
func (w *world) put(name, app string) {
	w.write(name, app, w.w.Put)
}

func (w *world) del(name string) { w.write(name, "", w.w.Delete) }

// as writes the next version of a pod with a uid.
func (w *world) as(name, uid string) {
	w.uid = types.UID(uid)
	w.write(name, "", w.w.Put)
}

func (w *world) write(name, app string, do func(*wire.Meta, []byte) error) {
	w.t.Helper()
	w.rv++
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, UID: w.uid, ResourceVersion: strconv.Itoa(w.rv)}}
	if app != "" {
		pod.Labels = map[string]string{"app": app}
	}
	raw, err := pod.Marshal()
	if err != nil {
		w.t.Fatal(err)
	}
	var m wire.Meta
	if err := wire.ReadMeta(wire.Protobuf, raw, &m); err != nil {
		w.t.Fatal(err)
	}
	if err := do(&m, raw); err != nil {
		w.t.Fatal(err)
	}
	w.w.Flush()
}
