package servers

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirproject/weir/internal/resourceversion"
	"github.com/weirproject/weir/internal/wire"
)

// writer changes a pod and returns the resourceVersion that it has then. Implementations are safe
// for concurrent use.
type writer interface {
	write(ctx context.Context, pod int, change int64) (resourceVersion uint64, err error)
}

// changed is the annotation that a change sets.
const changed = "weir.example.com/changed"

// patcher patches pods through the API server, which has work with that.
type patcher struct {
	client *client
	pods   *serverPods
}

func (p *patcher) write(ctx context.Context, pod int, change int64) (uint64, error) {
	namespace, name, _ := strings.Cut(p.pods.keys[pod], "/")
	answer, err := p.client.do(ctx, request{
		method: http.MethodPatch,
		path:   "/api/v1/namespaces/" + namespace + "/pods/" + name,
		as:     "application/merge-patch+json",
		send:   strings.NewReader(fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, changed, change)),
	})
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	_, object, err := wire.CutObject(wire.Protobuf, body)
	if err != nil {
		return 0, err
	}
	var m wire.Meta
	if err := wire.ReadMeta(wire.Protobuf, object, &m); err != nil {
		return 0, err
	}
	return resourceversion.Parse(m.ResourceVersion)
}

// etcdTimeout bounds one write to etcd.
const etcdTimeout = 20 * time.Second

// etcdWriter writes pods into etcd, past the API server, through the JSON gateway that etcd has: a
// client of its gRPC would double what this program is made of. It is for test clusters.
type etcdWriter struct {
	url  string
	http *http.Client
	pods *serverPods
}

func (e *etcdWriter) write(ctx context.Context, pod int, change int64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	ask, err := json.Marshal(map[string]string{
		"key":   base64.StdEncoding.EncodeToString([]byte("/registry/pods/" + e.pods.keys[pod])),
		"value": base64.StdEncoding.EncodeToString(stored(e.pods.raw[pod], change)),
	})
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+"/v3/kv/put", bytes.NewReader(ask))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := e.http.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
	if err != nil {
		return 0, err
	}
	if answer.StatusCode != http.StatusOK {
		return 0, &answerError{what: "etcd: put", code: answer.StatusCode, said: printable(said)}
	}
	var put struct {
		Header struct {
			Revision uint64 `json:"revision,string"`
		} `json:"header"`
	}
	if err := json.Unmarshal(said, &put); err != nil || put.Header.Revision == 0 {
		return 0, fmt.Errorf("etcd: put: no revision in %.80q", said)
	}
	return put.Header.Revision, nil
}

// stored returns a pod with an annotation, as kube-apiserver stores it. It appends the annotation
// in a second metadata. Of a message that is there twice a protobuf reader makes one, in which the
// later annotation wins over the earlier one.
func stored(pod []byte, change int64) []byte {
	const metadata, annotations, key, value = 1, 12, 1, 2
	var entry, meta []byte
	entry = protowire.AppendString(protowire.AppendTag(entry, key, protowire.BytesType), changed)
	entry = protowire.AppendString(protowire.AppendTag(entry, value, protowire.BytesType), strconv.FormatInt(change, 10))
	meta = protowire.AppendBytes(protowire.AppendTag(meta, annotations, protowire.BytesType), entry)
	object := protowire.AppendBytes(protowire.AppendTag(bytes.Clone(pod), metadata, protowire.BytesType), meta)
	return wire.AppendObject(nil, wire.Protobuf, wire.TypeMeta{APIVersion: "v1", Kind: "Pod"}, object)
}
