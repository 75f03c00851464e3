package clientgo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/weirproject/weir/internal/source"
	"github.com/weirproject/weir/internal/wire"
)

// objectStream writes bodies of the objects that List and Watch returned. An item of a body has the
// object's metadata only, with an id in place of the generation, by which the sink fetches the
// object itself. So an object that cannot be encoded gets through too. objects holds the rest of
// the list that is being read, or one event.
type objectStream struct {
	active bool // the body that is being read is one of these; used by the reflector's goroutine

	mu      sync.Mutex
	objects map[int64]runtime.Object
	lastID  int64
}

// add stores an object under a new id and appends the item that stands for it.
func (s *objectStream) add(dst []byte, object runtime.Object) ([]byte, error) {
	m, err := meta.Accessor(object)
	if err != nil {
		return dst, fmt.Errorf("%T has no metadata: %w", object, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	if s.objects == nil {
		s.objects = map[int64]runtime.Object{}
	}
	s.objects[s.lastID] = object
	return appendStreamItem(dst, m, s.lastID), nil
}

// take returns the object with an id and removes it.
func (s *objectStream) take(id int64) (runtime.Object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object, ok := s.objects[id]
	delete(s.objects, id)
	return object, ok
}

// begin starts a body and drops the objects of one that broke off.
func (s *objectStream) begin() {
	s.active = true
	s.reset()
}

func (s *objectStream) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects = nil
}

// list returns a list of object's items.
func (s *objectStream) list(object runtime.Object) (*source.List, error) {
	s.begin()
	listMeta, err := meta.ListAccessor(object)
	if err != nil {
		return nil, fmt.Errorf("List returned %T, which is no list: %w", object, err)
	}
	items, err := meta.ExtractListWithAlloc(object) // copies, so that an item does not pin the whole list
	if err != nil {
		return nil, fmt.Errorf("items of %T: %w", object, err)
	}
	body := &listBody{stream: s, items: items, meta: wire.ListMeta{
		ResourceVersion: listMeta.GetResourceVersion(), Continue: listMeta.GetContinue(), RemainingItemCount: -1,
	}}
	if n := listMeta.GetRemainingItemCount(); n != nil {
		body.meta.RemainingItemCount = *n
	}
	return source.ReadList(body, wire.JSON, wire.Limits{}), nil
}

// listBody is the body of a list, written as it is read.
type listBody struct {
	stream *objectStream
	items  []runtime.Object // those that are not yet written
	meta   wire.ListMeta
	began  bool
	writer *wire.ListWriter
	buf    bytes.Buffer
	item   []byte
}

func (b *listBody) Read(p []byte) (int, error) {
	for b.buf.Len() == 0 {
		if err := b.fill(); err != nil {
			return 0, err
		}
	}
	return b.buf.Read(p)
}

// fill writes the next piece of the body.
func (b *listBody) fill() (err error) {
	switch {
	case b.writer == nil && b.began:
		return io.EOF
	case b.writer == nil:
		b.began = true
		b.writer = wire.NewListWriter(&b.buf, wire.JSON, wire.TypeMeta{APIVersion: "v1", Kind: "List"}, b.meta, 0)
		return nil
	case len(b.items) == 0:
		err = b.writer.Close()
		b.writer = nil
		return err
	}
	object := b.items[0]
	b.items[0] = nil
	b.items = b.items[1:]
	if b.item, err = b.stream.add(b.item[:0], object); err != nil {
		return err
	}
	return b.writer.WriteItem(b.item)
}

// Close drops what was not read.
func (b *listBody) Close() error {
	b.items, b.writer, b.began = nil, nil, true
	b.stream.reset()
	return nil
}

// watch returns a watch of w's events. It ends with ctx.
func (s *objectStream) watch(ctx context.Context, w watch.Interface) (*source.Watch, error) {
	s.begin()
	if w == nil {
		return nil, errors.New("Watch returned nothing")
	}
	body := &watchBody{context: ctx, stream: s, events: w, closed: make(chan struct{})}
	return source.ReadWatch(body, wire.JSON, wire.Limits{}), nil
}

// watchBody is the body of a watch, written as events arrive.
type watchBody struct {
	context context.Context // ends the stream
	stream  *objectStream
	events  watch.Interface
	closed  chan struct{}
	close   sync.Once
	buf     bytes.Buffer
	item    []byte
}

func (b *watchBody) Read(p []byte) (int, error) {
	for b.buf.Len() == 0 {
		select {
		case <-b.context.Done():
			return 0, context.Cause(b.context)
		case <-b.closed:
			return 0, io.EOF
		case event, ok := <-b.events.ResultChan():
			if !ok {
				return 0, io.EOF
			}
			if err := b.write(event); err != nil {
				return 0, err
			}
		}
	}
	return b.buf.Read(p)
}

// write frames an event.
func (b *watchBody) write(event watch.Event) (err error) {
	t, ok := wire.ParseEventType(string(event.Type))
	switch {
	case !ok:
		return fmt.Errorf("watch event of unknown type %q", event.Type)
	case t == wire.Error:
		b.item, err = appendStatus(b.item[:0], event.Object)
	case t == wire.Bookmark:
		var m metav1.Object
		if m, err = meta.Accessor(event.Object); err == nil {
			b.item = appendStreamItem(b.item[:0], m, 0)
		}
	default:
		b.item, err = b.stream.add(b.item[:0], event.Object)
	}
	if err != nil {
		return err
	}
	b.buf.Write(wire.AppendEvent(nil, wire.JSON, t, wire.TypeMeta{APIVersion: "v1", Kind: "Object"}, b.item))
	return nil
}

// Close stops the watch.
func (b *watchBody) Close() error {
	b.close.Do(func() {
		close(b.closed)
		stopWatch(b.events)
	})
	return nil
}

// stopWatch stops a watch and drains it: a watch around another one, as watch.Filter makes, may
// otherwise block in a send for ever. The goroutine ends when the channel is closed, which a
// stopped watch must do.
func stopWatch(w watch.Interface) {
	w.Stop()
	go func() {
		for range w.ResultChan() {
		}
	}()
}

// streamItem is what the reflector reads of an object.
type streamItem struct {
	Metadata streamItemMeta `json:"metadata"`
}

type streamItemMeta struct {
	Namespace       string            `json:"namespace,omitempty"`
	Name            string            `json:"name,omitempty"`
	UID             string            `json:"uid,omitempty"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Generation      int64             `json:"generation,omitempty"`
	Annotations     map[string]string `json:"annotations,omitempty"`
}

// appendStreamItem appends an object's item as JSON. id is 0 for bookmarks.
func appendStreamItem(dst []byte, m metav1.Object, id int64) []byte {
	s := streamItem{streamItemMeta{
		Namespace: m.GetNamespace(), Name: m.GetName(), UID: string(m.GetUID()),
		ResourceVersion: m.GetResourceVersion(), Generation: id,
	}}
	if end, ok := m.GetAnnotations()[metav1.InitialEventsAnnotationKey]; ok {
		s.Metadata.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: end}
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings and numbers can always be encoded
	}
	return append(dst, text...)
}

// isDecodeFailure reports whether a status says that a client could not decode an event.
func isDecodeFailure(status *metav1.Status) bool {
	if status.Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Details.Causes, func(c metav1.StatusCause) bool { return c.Type == "ClientWatchDecoding" })
}

// appendStatus appends the object of an ERROR event.
func appendStatus(dst []byte, object runtime.Object) ([]byte, error) {
	status, ok := object.(*metav1.Status)
	if !ok {
		err, is := apierrors.FromObject(object).(apierrors.APIStatus)
		if !is {
			return dst, fmt.Errorf("watch ended with %T", object)
		}
		s := err.Status()
		status = &s
	}
	status = status.DeepCopy()
	if isDecodeFailure(status) {
		// A resumed watch would bring the event again. A list, as in client-go, may have a later
		// version.
		status.Code, status.Reason = http.StatusGone, metav1.StatusReasonExpired
	}
	status.APIVersion, status.Kind = "v1", "Status"
	text, err := json.Marshal(status)
	return append(dst, text...), err
}
