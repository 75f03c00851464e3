package servers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// writer changes pods. write returns the resourceVersion of the changed pod. Implementations are
// safe for concurrent use.
type writer interface {
	write(ctx context.Context, pod int, change int64) (resourceVersion uint64, err error)
}

// changed is the annotation that a change sets.
const changed = "weir.example.com/changed"

// patcher is a writer that patches pods through the API server, which uses CPU time for that.
type patcher struct {
	client *client
	pods   *serverPods
}

func (p *patcher) write(ctx context.Context, pod int, change int64) (rv uint64, err error) {
	namespace, name, _ := strings.Cut(p.pods.keys[pod], "/")
	err = figures.Attempt(func() {
		answer := figures.Must(p.client.do(ctx, request{
			method: http.MethodPatch,
			path:   "/api/v1/namespaces/" + namespace + "/pods/" + name,
			as:     "application/merge-patch+json",
			send:   strings.NewReader(fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, changed, change)),
		}))
		defer answer.Body.Close()
		_, object, err := wire.CutObject(wire.Protobuf, figures.Must(io.ReadAll(answer.Body)))
		figures.Check(err)
		var m wire.Meta
		figures.Check(wire.ReadMeta(wire.Protobuf, object, &m))
		rv = figures.Must(resourceversion.Parse(m.ResourceVersion))
	})
	return rv, err
}

// etcdTimeout limits the time of one write to etcd.
const etcdTimeout = 20 * time.Second

// etcdWriter is a writer that writes pods directly to etcd. It uses etcd's JSON gateway, because a
// gRPC client would double the code that this program links. It is for test clusters.
type etcdWriter struct {
	url  string
	http *http.Client
	pods *serverPods
}

func (e *etcdWriter) write(ctx context.Context, pod int, change int64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	var put struct {
		Header struct {
			Revision uint64 `json:"revision,string"`
		} `json:"header"`
	}
	err := figures.Attempt(func() {
		ask := figures.Must(json.Marshal(map[string][]byte{ // JSON has the bytes as base64
			"key": []byte("/registry/pods/" + e.pods.keys[pod]), "value": stored(e.pods.raw[pod], change),
		}))
		r := figures.Must(http.NewRequestWithContext(ctx, http.MethodPost, e.url+"/v3/kv/put", bytes.NewReader(ask)))
		r.Header.Set("Content-Type", "application/json")
		answer := figures.Must(e.http.Do(r))
		defer answer.Body.Close()
		said := figures.Must(io.ReadAll(io.LimitReader(answer.Body, 1<<16)))
		if answer.StatusCode != http.StatusOK {
			figures.Check(&answerError{what: "etcd: put", code: answer.StatusCode, said: printable(said)})
		}
		if err := json.Unmarshal(said, &put); err != nil || put.Header.Revision == 0 {
			figures.Check(fmt.Errorf("etcd: put: no revision in %.80q", said))
		}
	})
	return put.Header.Revision, err
}

// stored returns a pod with an additional annotation, as kube-apiserver stores it. It appends a
// second metadata message that contains only the annotation. A protobuf decoder merges the two
// messages; of two values of one annotation, the later one wins.
func stored(pod []byte, change int64) []byte {
	const metadata, annotations, key, value = 1, 12, 1, 2
	var entry, meta []byte
	entry = protowire.AppendString(protowire.AppendTag(entry, key, protowire.BytesType), changed)
	entry = protowire.AppendString(protowire.AppendTag(entry, value, protowire.BytesType), strconv.FormatInt(change, 10))
	meta = protowire.AppendBytes(protowire.AppendTag(meta, annotations, protowire.BytesType), entry)
	object := protowire.AppendBytes(protowire.AppendTag(bytes.Clone(pod), metadata, protowire.BytesType), meta)
	return wire.AppendObject(nil, wire.Protobuf, wire.TypeMeta{APIVersion: "v1", Kind: "Pod"}, object)
}

// maxWriters limits how many writes run at the same time.
const maxWriters = 64

// updates changes pods at a rate, one after the other, and records the resourceVersions.
// Consecutive changes are of pods that are far apart.
type updates struct {
	cancel  context.CancelCauseFunc
	writing sync.WaitGroup
	begun   time.Time

	mu      sync.Mutex
	last    []uint64 // each pod's highest resourceVersion; 0: not changed
	count   int64
	elapsed time.Duration
	err     error
}

// startUpdates starts to write, until stop is called or ctx ends. If the writes fall behind the
// rate, they are then faster, to make up for at most a tenth of a second. The other late writes are
// skipped.
func startUpdates(ctx context.Context, w writer, pods int, perSecond float64) *updates {
	u := &updates{begun: time.Now(), last: make([]uint64, pods)}
	ctx, u.cancel = context.WithCancelCause(ctx)
	type job struct {
		pod    int
		change int64
	}
	jobs := make(chan job)
	u.writing.Go(func() {
		defer close(jobs)
		l := newLimiter(perSecond)
		step := int64(figures.Stride(pods))
		never := u.begun.UnixNano() // a new value: writing the old one would change nothing
		for k := int64(0); l.Wait(ctx) == nil; k++ {
			select {
			case jobs <- job{int(k * step % int64(pods)), never + k}:
			case <-ctx.Done():
				return
			}
		}
	})
	for range min(maxWriters, pods) {
		u.writing.Go(func() {
			for j := range jobs {
				// Finish a write that has started, so that u.last is complete.
				rv, err := w.write(context.WithoutCancel(ctx), j.pod, j.change)
				u.note(j.pod, rv, err)
			}
		})
	}
	return u
}

func (u *updates) note(pod int, rv uint64, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err != nil {
		u.err = errors.Join(u.err, err)
		u.cancel(err)
		return
	}
	u.last[pod] = max(u.last[pod], rv)
	u.count++
}

// errUpdates is wrapped by the error of a measurement whose changes of pods failed.
var errUpdates = errors.New("the updates have failed")

// stop stops writing, waits for running writes, and returns the last resourceVersion of each pod,
// or 0 if the pod was not changed. Later calls return the same result.
func (u *updates) stop() ([]uint64, error) {
	u.cancel(nil)
	u.writing.Wait()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.elapsed = cmp.Or(u.elapsed, time.Since(u.begun))
	if u.err != nil {
		return nil, errors.Join(errUpdates, u.err)
	}
	return u.last, nil
}

// rate returns the number of writes per second, until now or until stop was called.
func (u *updates) rate() float64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	elapsed := cmp.Or(u.elapsed, time.Since(u.begun))
	return float64(u.count) / max(elapsed.Seconds(), 1e-3)
}
