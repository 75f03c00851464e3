package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// population is n pods made from a few. It holds only those few: bodies are made while they are written. It is
// read-only and safe for concurrent use.
type population struct {
	n      int
	copies int // pods of one template, next to each other
	stride int // walks over all pods so that neighbours in time are far apart

	items, added, modified, deleted []template
	listSize                        int64 // of a LIST's items, with their tags
	bookmark, expired               []byte
	list                            []byte // a whole LIST, gzipped
}

var errNoPods = errors.New("the server has no pods to take as models")

// newPopulation makes n pods out of the given ones, which are in the order of their keys.
func newPopulation(models []corev1.Pod, n int) (*population, error) {
	if len(models) == 0 {
		return nil, errNoPods
	}
	models = models[:min(len(models), n)]
	p := &population{n: n, copies: (n + len(models) - 1) / len(models), stride: strideOf(n)}
	for i := range models {
		item, err := newItem(&models[i])
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %w", models[i].Namespace, models[i].Name, err)
		}
		p.items = append(p.items, item)
		for event, into := range map[string]*[]template{"ADDED": &p.added, "MODIFIED": &p.modified, "DELETED": &p.deleted} {
			t, err := newFrame(event, &models[i])
			if err != nil {
				return nil, err
			}
			*into = append(*into, t)
		}
	}
	for i := range n {
		size := len(p.items[i/p.copies].bytes)
		p.listSize += int64(protowire.SizeTag(2) + protowire.SizeBytes(size))
	}
	if err := p.frameRest(); err != nil {
		return nil, err
	}
	var list bytes.Buffer
	z := newGzip(&list)
	if err := p.writeList(z); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	p.list = list.Bytes()
	return p, nil
}

// frameRest makes the events that are no pod's own.
func (p *population) frameRest() (err error) {
	mark := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	mark.ResourceVersion = formatVersion(p.version())
	mark.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	if p.bookmark, err = frameObject("BOOKMARK", mark); err != nil {
		return err
	}
	p.expired, err = frameObject("ERROR", &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure,
		Code:     410,
		Reason:   metav1.StatusReasonExpired,
		Message:  "too old resource version: the stub was told so",
	})
	return err
}

func frameObject(event string, object runtime.Object) ([]byte, error) {
	var b bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &b); err != nil {
		return nil, err
	}
	return frame(event, b.Bytes())
}

// version is the resourceVersion of a LIST: no pod's is higher.
func (p *population) version() int64 { return firstVersion + int64(p.n) }

// chunk is about how many bytes are written at once.
const chunk = 256 << 10

// writeList writes a LIST body, in its envelope.
func (p *population) writeList(w io.Writer) error {
	meta, err := (&metav1.ListMeta{ResourceVersion: formatVersion(p.version())}).Marshal()
	if err != nil {
		return err
	}
	kind, err := (&runtime.TypeMeta{APIVersion: "v1", Kind: "PodList"}).Marshal()
	if err != nil {
		return err
	}
	message := int64(protowire.SizeTag(1)+protowire.SizeBytes(len(meta))) + p.listSize
	b := []byte("k8s\x00")
	b = protowire.AppendBytes(protowire.AppendTag(b, 1, protowire.BytesType), kind)
	b = protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.BytesType), uint64(message))
	b = protowire.AppendBytes(protowire.AppendTag(b, 1, protowire.BytesType), meta)
	for i := range p.n {
		t := p.items[i/p.copies]
		b = protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.BytesType), uint64(len(t.bytes)))
		b = t.append(b, i, firstVersion+int64(i)+1)
		if b, err = flushFull(w, b); err != nil {
			return err
		}
	}
	// The envelope's contentEncoding and contentType, empty as the apiserver has them.
	b = protowire.AppendBytes(protowire.AppendTag(b, 3, protowire.BytesType), nil)
	b = protowire.AppendBytes(protowire.AppendTag(b, 4, protowire.BytesType), nil)
	_, err = w.Write(b)
	return err
}

// writeInitial writes all pods as ADDED events and the bookmark behind them.
func (p *population) writeInitial(w io.Writer) error {
	var b []byte
	var err error
	for i := range p.n {
		b = p.added[i/p.copies].append(b, i, firstVersion+int64(i)+1)
		if b, err = flushFull(w, b); err != nil {
			return err
		}
	}
	_, err = w.Write(append(b, p.bookmark...))
	return err
}

// appendModified appends the event number k, k ≥ 0, of an endless row that comes by all pods.
func (p *population) appendModified(b []byte, k int64) []byte {
	i := int(k * int64(p.stride) % int64(p.n))
	return p.modified[i/p.copies].append(b, i, p.version()+k+1)
}

// writeRemoved writes a DELETED event for every pod but each keep-th.
func (p *population) writeRemoved(w io.Writer, keep int) error {
	var b []byte
	var err error
	for i := range p.n {
		if i%keep == 0 {
			continue
		}
		b = p.deleted[i/p.copies].append(b, i, p.version()+int64(i)+1)
		if b, err = flushFull(w, b); err != nil {
			return err
		}
	}
	_, err = w.Write(b)
	return err
}

// flushFull writes b out and empties it when it has grown to a chunk.
func flushFull(w io.Writer, b []byte) ([]byte, error) {
	if len(b) < chunk {
		return b, nil
	}
	_, err := w.Write(b)
	return b[:0], err
}

// strideOf is a step that comes by every one of n positions before it repeats one.
func strideOf(n int) int {
	stride := 7919
	for gcd(stride, n) != 1 {
		stride++
	}
	return stride
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
