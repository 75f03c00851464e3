package reflector

import (
	"bytes"
	"context"
	"io"
	"strconv"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/podsim"
)

// tape is a source that returns bodies from memory. A watch remains open after its last event.
type tape struct {
	list, watch []byte
	relists     int // the number of further watches that fail with 410, so that a list follows
	over        chan struct{}
	once        sync.Once
}

func (t *tape) List(context.Context, metav1.ListOptions) (source.List, error) {
	return listOf(io.NopCloser(bytes.NewReader(t.list)), wire.Protobuf)
}

func (t *tape) Watch(ctx context.Context, _ metav1.ListOptions) (source.Watch, error) {
	if t.relists > 0 {
		t.relists--
		return nil, status(410, "Expired")
	}
	body := io.MultiReader(bytes.NewReader(t.watch), reader(func() (int, error) {
		t.once.Do(func() { close(t.over) })
		<-ctx.Done()
		return 0, ctx.Err()
	}))
	return watchOf(io.NopCloser(body), wire.Protobuf)
}

func (t *tape) NewestVersion(context.Context, metav1.ListOptions) (string, error) { return "", nil }

func (t *tape) ServerVersion(context.Context) (int, int, error) { return 1, 37, nil }

type reader func() (int, error)

func (r reader) Read([]byte) (int, error) { return r() }

var podType = wire.TypeMeta{APIVersion: "v1", Kind: "Pod"}

// podTape returns a tape whose list contains pods, and whose watch sends events.
func podTape(b *testing.B, pods, events int) *tape {
	sim := podsim.New(pods, 1)
	var items [][]byte
	var size int64
	t := &tape{over: make(chan struct{})}
	for i := range pods {
		p := sim.Pod(i)
		p.ResourceVersion = strconv.Itoa(1000 + i)
		item, err := p.Marshal()
		check.NoError(b, err)
		items = append(items, item)
		size += wire.ListItemSize(len(item))
	}
	var list bytes.Buffer
	w := wire.NewListWriter(&list, wire.Protobuf, wire.TypeMeta{APIVersion: "v1", Kind: "PodList"},
		wire.ListMeta{ResourceVersion: "100000"}, size)
	for _, item := range items {
		w.WriteItem(item)
	}
	check.NoError(b, w.Close())
	t.list = list.Bytes()
	for i := range events {
		p := sim.Pod(i % pods)
		p.ResourceVersion = strconv.Itoa(200000 + i)
		object, err := p.Marshal()
		check.NoError(b, err)
		t.watch = wire.AppendEvent(t.watch, wire.Protobuf, wire.Modified, podType, object)
	}
	return t
}

func play(b *testing.B, t *tape) {
	s := store.New(store.Config{Encoding: wire.Protobuf})
	defer s.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error)
	r := New(t, s.Writer(store.Scope{}), Config{Mode: List, Backoff: Backoff{Min: 1, Max: 1}})
	go func() { done <- r.Run(ctx) }()
	<-t.over
	cancel()
	<-done
}

// BenchmarkWatch measures the time to read one event from the bytes of a body and to store its
// object, a pod of about 5 KB.
func BenchmarkWatch(b *testing.B) {
	t := podTape(b, 1000, 20000)
	b.SetBytes(int64(len(t.watch) / 20000))
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += 20000 {
		t.over, t.once = make(chan struct{}), sync.Once{}
		play(b, t)
	}
}

// BenchmarkRelist measures the time per object of a list whose objects the store already has.
func BenchmarkRelist(b *testing.B) {
	t := podTape(b, 10000, 0)
	b.SetBytes(int64(len(t.list) / 10000))
	b.ReportAllocs()
	b.ResetTimer()
	t.relists = b.N/10000 + 1
	play(b, t)
}
