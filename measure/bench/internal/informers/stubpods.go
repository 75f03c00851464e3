package informers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/klauspost/compress/gzip"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// stubPods are n pods made from models. They hold the parts of the models, and a whole LIST. Other
// bodies are made while they are written. They are read-only and safe for concurrent use.
type stubPods struct {
	encoding encoding
	n        int
	stride   int // walks over all pods so that neighbours in time are far apart

	models            []model
	rolled            int   // how many models there are, if some have a life; else 0
	listSize          int64 // of a LIST's items
	bookmark, expired []byte
	list              []byte // a whole LIST, gzipped
}

var errNoModels = errors.New("the server has no pods to take as models")

// newStubPods makes n pods after models. Each call of models gives these in the order of their
// keys; none of them is kept. If there are fewer than n, each serves for several pods next to each
// other. If there are none, the error is errNoModels.
// lifecycle says that rollouts replace some pods.
func newStubPods(e encoding, n int, lifecycle bool, models func() iter.Seq2[*corev1.Pod, error]) (*stubPods, error) {
	p := &stubPods{encoding: e, n: n, stride: figures.Stride(n)}
	if err := p.take(models(), false); err != nil {
		return nil, err
	}
	if lifecycle {
		p.rolled = len(p.models)
	}
	if len(p.models) < n || lifecycle { // now it is known that names and uids need blanks
		if err := p.take(models(), true); err != nil {
			return nil, err
		}
	}
	if len(p.models) == 0 {
		return nil, errNoModels
	}
	return p, p.finish()
}

// take makes at most n models. They replace the models that there were.
func (p *stubPods) take(models iter.Seq2[*corev1.Pod, error], copies bool) error {
	p.models = nil
	like := siblings{}
	for pod, err := range models {
		if err != nil {
			return err
		}
		m, err := newModel(p.encoding, like, pod, copies)
		if err != nil {
			return fmt.Errorf("%s/%s: %w", pod.Namespace, pod.Name, err)
		}
		if p.rolled > 0 && isRolledOut(len(p.models), p.rolled) {
			if m.life, err = newLife(p.encoding, like, pod); err != nil {
				return fmt.Errorf("%s/%s: %w", pod.Namespace, pod.Name, err)
			}
		}
		if p.models = append(p.models, m); len(p.models) == p.n {
			break
		}
	}
	return nil
}

// finish makes what belongs to no single pod: the size of a LIST's items, a whole LIST, and what
// frameRest makes.
func (p *stubPods) finish() (err error) {
	var b []byte
	for i := range p.n {
		b = p.appendItem(b[:0], i)
		p.listSize += int64(len(b))
	}
	if err := p.frameRest(); err != nil {
		return err
	}
	var list bytes.Buffer
	z := newGzip(&list)
	if err := p.writeList(z); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	p.list = bytes.Clone(list.Bytes())
	return nil
}

// frameRest makes the events that belong to no single pod: the bookmark, and the error 410.
func (p *stubPods) frameRest() (err error) {
	mark := &corev1.Pod{TypeMeta: p.encoding.itemType()}
	mark.ResourceVersion = resourceversion.Format(uint64(p.version()))
	mark.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	if p.bookmark, err = p.encoding.frame("BOOKMARK", mark); err != nil {
		return err
	}
	p.expired, err = p.encoding.frame("ERROR", &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure,
		Code:     410,
		Reason:   metav1.StatusReasonExpired,
		Message:  "too old resource version: the stub was told so",
	})
	return err
}

// firstVersion is the resourceVersion that a stub begins at. It has as many digits as the blank.
const firstVersion = 1_000_000_000

// version returns the resourceVersion of a LIST. No pod's is higher.
func (p *stubPods) version() int64 { return firstVersion + int64(p.n) }

// parts returns the parts that pod i has in a state.
func (p *stubPods) parts(i int, s *state) [3]*part {
	m := &p.models[i*len(p.models)/p.n]
	if s.phase != started {
		of := &m.life[s.phase-1]
		return [3]*part{&of[0], &of[1], &of[2]}
	}
	status := &m.status[0]
	if s.unready {
		status = &m.status[1]
	}
	return [3]*part{&m.meta, &m.spec, status}
}

// firstOf returns the first pod that a model serves for.
func (p *stubPods) firstOf(model int) int { return (model*p.n + len(p.models) - 1) / len(p.models) }

// appendItem appends pod i as a LIST has it.
func (p *stubPods) appendItem(dst []byte, i int) []byte {
	v := values{copy: int64(i), version: firstVersion + int64(i) + 1, state: firstState(i)}
	parts := p.parts(i, &v.state)
	return p.encoding.appendItem(dst, i, &parts, &v)
}

// appendEvent appends an event of pod i.
func (p *stubPods) appendEvent(dst []byte, event string, i int, version int64, s state) []byte {
	v := values{copy: int64(i) + int64(s.generation)*int64(p.n), version: version, state: s}
	parts := p.parts(i, &s)
	return p.encoding.appendEvent(dst, event, &parts, &v)
}

// chunk is about how many bytes are written at once.
const chunk = 256 << 10

// writeList writes a LIST body.
func (p *stubPods) writeList(w io.Writer) error {
	version := resourceversion.Format(uint64(p.version()))
	b := p.encoding.appendHead(nil, version, p.listSize)
	var err error
	for i := range p.n {
		b = p.appendItem(b, i)
		if b, err = flushFull(w, b); err != nil {
			return err
		}
	}
	_, err = w.Write(p.encoding.appendTail(b, version))
	return err
}

// writeInitial writes all pods as ADDED events and the bookmark behind them.
func (p *stubPods) writeInitial(w io.Writer) error {
	var b []byte
	var err error
	for i := range p.n {
		b = p.appendEvent(b, "ADDED", i, firstVersion+int64(i)+1, firstState(i))
		if b, err = flushFull(w, b); err != nil {
			return err
		}
	}
	_, err = w.Write(append(b, p.bookmark...))
	return err
}

// writeRemoved writes a DELETED event for every pod except each keep-th.
func (p *stubPods) writeRemoved(w io.Writer, keep int) error {
	var b []byte
	var err error
	for i := range p.n {
		if i%keep == 0 {
			continue
		}
		b = p.appendEvent(b, "DELETED", i, p.version()+int64(i)+1, firstState(i))
		if b, err = flushFull(w, b); err != nil {
			return err
		}
	}
	_, err = w.Write(b)
	return err
}

// flushFull writes b and empties it if it has grown to a chunk.
func flushFull(w io.Writer, b []byte) ([]byte, error) {
	if len(b) < chunk {
		return b, nil
	}
	_, err := w.Write(b)
	return b[:0], err
}

// newGzip compresses as kube-apiserver does: at the fastest level.
func newGzip(w io.Writer) io.WriteCloser {
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	return z
}
