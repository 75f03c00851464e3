package informers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/compress"
	"github.com/weirproject/weir/internal/core/resourceversion"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// model is an encoded pod: one text for each phase. A pod that no rollout replaces has only the
// phases ready and unready. A stub fills in the blanks of the texts when it writes.
type model []text

// newModel encodes a pod. If copies is set, the model represents several pods. If replaced is set,
// a rollout replaces them.
func newModel(e *encoding, pod *corev1.Pod, copies, replaced bool) (model, error) {
	pod = blankPod(pod, copies)
	m := make(model, 2, phases)
	if replaced {
		m = m[:phases]
	}
	for p := range m {
		var like *text
		if p > 0 {
			like = &m[ready]
		}
		var err error
		if m[p], err = newText(e, phase(p).of(pod), like); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// stubPods are n pods made from models. They store the models and one whole LIST. Other bodies are
// created when they are written. stubPods are not modified, and are safe for concurrent use.
type stubPods struct {
	encoding *encoding
	n        int
	stride   int // the step with which changes visit all pods; see figures.Stride

	models            []model
	rolled            int   // the number of models if rollouts replace pods; otherwise 0
	listSize          int64 // the size of the items of a LIST
	bookmark, expired []byte
	list              []byte // a whole LIST, compressed by gzip
}

var errNoModels = errors.New("the server has no pods to copy")

// newStubPods returns n pods made from models. Each call of models returns the same models, in the
// order of their keys; newStubPods does not retain them. If there are fewer than n models, each
// model represents several neighbouring pods. If there are no models, the error is errNoModels. If
// lifecycle is set, rollouts replace some of the pods.
func newStubPods(e *encoding, n int, lifecycle bool, models func() iter.Seq2[*corev1.Pod, error]) (*stubPods, error) {
	p := &stubPods{encoding: e, n: n, stride: figures.Stride(n)}
	if err := p.take(models(), false); err != nil {
		return nil, err
	}
	if lifecycle {
		p.rolled = len(p.models)
	}
	// Whether names and uids need blanks depends on the number of models, which is known only now.
	if len(p.models) < n || lifecycle {
		if err := p.take(models(), true); err != nil {
			return nil, err
		}
	}
	if len(p.models) == 0 {
		return nil, errNoModels
	}
	return p, p.finish()
}

// take replaces the models by at most n new ones.
func (p *stubPods) take(models iter.Seq2[*corev1.Pod, error], copies bool) error {
	p.models = nil
	for pod, err := range models {
		if err != nil {
			return err
		}
		m, err := newModel(p.encoding, pod, copies, p.rolled > 0 && isRolledOut(len(p.models), p.rolled))
		if err != nil {
			return fmt.Errorf("%s/%s: %w", pod.Namespace, pod.Name, err)
		}
		if p.models = append(p.models, m); len(p.models) == p.n {
			break
		}
	}
	return nil
}

// finish creates what belongs to no single pod: the size of a LIST's items, the bookmark, the error
// 410, and a whole LIST.
func (p *stubPods) finish() (err error) {
	var b []byte
	for i := range p.n {
		b = p.item(b[:0], i)
		p.listSize += wire.ListItemSize(len(b))
	}
	mark := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: resourceversion.Format(uint64(p.version()))}}
	mark.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	if p.bookmark, err = p.event(wire.Bookmark, p.encoding.types, mark); err != nil {
		return err
	}
	p.expired, err = p.event(wire.Error, wire.TypeMeta{APIVersion: "v1", Kind: "Status"}, &metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    410,
		Reason:  metav1.StatusReasonExpired,
		Message: "too old resource version: expired by the benchmark",
	})
	if err != nil {
		return err
	}
	var list bytes.Buffer
	z := compress.NewFastGzipWriter(&list) // like kube-apiserver
	if err := errors.Join(p.writeList(z), z.Close()); err != nil {
		return err
	}
	p.list = bytes.Clone(list.Bytes())
	return nil
}

// event returns an encoded event of an object.
func (p *stubPods) event(t wire.EventType, types wire.TypeMeta, object message) ([]byte, error) {
	raw, err := p.encoding.encode(object)
	return wire.AppendEvent(nil, p.encoding.wire, t, types, raw), err
}

// firstVersion is the first resourceVersion of a stub. It has as many digits as the blank of a
// resourceVersion has bytes.
const firstVersion = 1_000_000_000

// version returns the resourceVersion of a LIST. Initially no pod has a higher one.
func (p *stubPods) version() int64 { return firstVersion + int64(p.n) }

// object appends pod i in a version and a state.
func (p *stubPods) object(dst []byte, i int, version int64, s state) []byte {
	v := values{copy: int64(i) + int64(s.generation)*int64(p.n), version: version, state: s}
	return p.models[i*len(p.models)/p.n][s.phase].append(p.encoding, dst, &v)
}

// item appends pod i as an item of a LIST.
func (p *stubPods) item(dst []byte, i int) []byte {
	return p.object(dst, i, firstVersion+int64(i)+1, firstState(i))
}

// firstOf returns the first pod that a model represents.
func (p *stubPods) firstOf(model int) int { return (model*p.n + len(p.models) - 1) / len(p.models) }

// writeList writes the body of a LIST.
func (p *stubPods) writeList(w io.Writer) error {
	types := p.encoding.types
	types.Kind += "List"
	l := wire.NewListWriter(w, p.encoding.wire, types, wire.ListMeta{ResourceVersion: resourceversion.Format(uint64(p.version()))}, p.listSize)
	l.Form = p.encoding.form
	var b []byte
	for i := range p.n {
		b = p.item(b[:0], i)
		if err := l.WriteItem(b); err != nil {
			return err
		}
	}
	return l.Close()
}

// chunk is the approximate number of bytes of events that are written together.
const chunk = 256 << 10

// events writes the events of one watch, in chunks. After an error it writes nothing.
type events struct {
	pods   *stubPods
	to     io.Writer
	object []byte // the last added object
	frames []byte // added, but not written yet
	err    error
}

// add adds an event of pod i.
func (e *events) add(t wire.EventType, i int, version int64, s state) {
	e.object = e.pods.object(e.object[:0], i, version, s)
	e.frames = wire.AppendEvent(e.frames, e.pods.encoding.wire, t, e.pods.encoding.types, e.object)
	if len(e.frames) >= chunk {
		e.write()
	}
}

// write writes the added events.
func (e *events) write() error {
	if e.err == nil {
		_, e.err = e.to.Write(e.frames)
	}
	e.frames = e.frames[:0]
	return e.err
}

// initial writes all pods as ADDED events, and then the bookmark.
func (e *events) initial() error {
	for i := 0; i < e.pods.n && e.err == nil; i++ {
		e.add(wire.Added, i, firstVersion+int64(i)+1, firstState(i))
	}
	e.frames = append(e.frames, e.pods.bookmark...)
	return e.write()
}

// removed writes a DELETED event for every pod except each keep-th one.
func (e *events) removed(keep int) error {
	for i := range e.pods.n {
		if i%keep != 0 {
			e.add(wire.Deleted, i, e.pods.version()+int64(i)+1, firstState(i))
		}
	}
	return e.write()
}
