package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/weirproject/weir/internal/core/wire"
)

// ObjectList is a List of the items of a list that a ListerWatcher's List returned.
type ObjectList struct {
	mu    sync.Mutex
	items []runtime.Object // the items that Next has not returned
	meta  wire.ListMeta
}

// NewObjectList returns the items of object. It returns an error if object is not a list.
func NewObjectList(object runtime.Object) (List, error) {
	m, err := ObjectListMeta(object)
	if err != nil {
		return nil, err
	}
	// WithAlloc copies the items, so that one stored item does not keep the whole list in memory.
	items, err := meta.ExtractListWithAlloc(object)
	if err != nil {
		return nil, fmt.Errorf("items of %T: %w", object, err)
	}
	return &ObjectList{items: items, meta: m}, nil
}

// ObjectListMeta returns the metadata of List's result. It returns an error if the result is not a
// list, is nil or a nil pointer, or is a Table.
func ObjectListMeta(object runtime.Object) (m wire.ListMeta, err error) {
	if isNil(object) {
		return m, fmt.Errorf("List returned a nil %T", object)
	}
	list, err := meta.ListAccessor(object)
	if err != nil {
		return m, fmt.Errorf("List returned %T, which is not a list: %w", object, err)
	}
	if u, ok := object.(*unstructured.UnstructuredList); ok && IsTable(u.GetAPIVersion(), u.GetKind()) {
		return m, fmt.Errorf("List returned a %s of %s", u.GetKind(), u.GetAPIVersion())
	}
	m = wire.ListMeta{ResourceVersion: list.GetResourceVersion(), Continue: list.GetContinue(), RemainingItemCount: -1}
	if n := list.GetRemainingItemCount(); n != nil {
		m.RemainingItemCount = *n
	}
	return m, nil
}

func isNil(value any) bool {
	v := reflect.ValueOf(value)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

func (l *ObjectList) Next() (Object, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.items) == 0 {
		return Object{}, io.EOF
	}
	item := l.items[0]
	l.items[0] = nil
	l.items = l.items[1:]
	if item == nil {
		return Object{Value: noItem{}}, nil
	}
	return Object{Value: item}, nil
}

// noItem replaces an item that is nil. Because noItem has no metadata, the informer logs and omits
// it. It also logs and omits an item that is a nil pointer.
type noItem struct{}

func (l *ObjectList) Meta() wire.ListMeta         { return l.meta }
func (l *ObjectList) ItemTypeMeta() wire.TypeMeta { return wire.TypeMeta{} }
func (l *ObjectList) Encoding() wire.Encoding     { return wire.JSON }
func (l *ObjectList) Offset() int64               { return 0 }

// Close drops the unread items.
func (l *ObjectList) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.items = nil
	return nil
}

// objectWatch is a Watch that returns the events of a watch.Interface, the result of a
// ListerWatcher's Watch. It ends when its context ends.
type objectWatch struct {
	context  context.Context
	events   watch.Interface
	expected ExpectedObject
	drained  []watch.Event // Next returns these before the events of the watch
	before   func()        // called before a blocking read, see Watch.BeforeRead
	closed   chan struct{}
	close    sync.Once
}

// NewObjectWatch returns a watch of w's events. It returns an error if w is nil, or if its
// ResultChan panics and utilruntime.ReallyCrash is false.
func NewObjectWatch(ctx context.Context, w watch.Interface, expected ExpectedObject) (events Watch, err error) {
	if isNil(w) {
		return nil, fmt.Errorf("Watch returned a nil %T", w)
	}
	err = ErrPanicked
	defer utilruntime.HandleCrashWithContext(ctx)
	drained := endDrain(w.ResultChan())
	return &objectWatch{
		context: ctx, events: w, expected: expected, drained: drained, before: func() {}, closed: make(chan struct{}),
	}, nil
}

// Next returns the next event. For an ERROR event it returns the event's status as an error. It
// logs and skips events that client-go would reject too. The error is ErrPanicked if the watch
// panics and utilruntime.ReallyCrash is false.
func (w *objectWatch) Next() (_ Event, err error) {
	err = ErrPanicked
	defer utilruntime.HandleCrashWithContext(w.context)
	return w.next()
}

func (w *objectWatch) next() (Event, error) {
	for {
		event, err := w.receive()
		switch {
		case err != nil:
			return Event{}, err
		case event.Type == watch.Error:
			return Event{}, eventError(event.Object)
		}
		understood, err := w.expected.eventOf(event)
		if err == nil {
			return understood, nil
		}
		utilruntime.HandleErrorWithContext(w.context, err, "Skipped a watch event")
	}
}

func (w *objectWatch) receive() (watch.Event, error) {
	if len(w.drained) > 0 {
		event := w.drained[0]
		w.drained = w.drained[1:]
		return event, nil
	}
	w.before()
	select {
	case <-w.context.Done():
		return watch.Event{}, context.Cause(w.context)
	case <-w.closed:
		return watch.Event{}, net.ErrClosed
	case event, ok := <-w.events.ResultChan():
		if !ok {
			return watch.Event{}, io.EOF
		}
		return event, nil
	}
}

// eventOf converts an event of a watch. It returns an error if the informer must reject the event.
func (e *ExpectedObject) eventOf(event watch.Event) (Event, error) {
	t, ok := wire.ParseEventType(string(event.Type))
	if !ok {
		return Event{}, fmt.Errorf("unknown type %q", event.Type)
	}
	if err := e.check(event.Object); err != nil {
		return Event{}, err
	}
	if _, err := wire.IdentityOf(event.Object); err != nil {
		return Event{}, err
	}
	return Event{Type: t, Object: Object{Value: event.Object}}, nil
}

func (w *objectWatch) BeforeRead(f func())     { w.before = f }
func (w *objectWatch) Buffered() int           { return len(w.drained) }
func (w *objectWatch) Encoding() wire.Encoding { return wire.JSON }
func (w *objectWatch) Offset() int64           { return 0 }

// Close stops the watch.
func (w *objectWatch) Close() error {
	w.close.Do(func() {
		close(w.closed)
		StopWatch(w.events)
	})
	return nil
}

// isDecodeFailure reports whether a status means that the client could not decode an event.
func isDecodeFailure(status *metav1.Status) bool {
	if status.Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Details.Causes, func(c metav1.StatusCause) bool { return c.Type == "ClientWatchDecoding" })
}

// eventError converts the object of an ERROR event to an error.
func eventError(object runtime.Object) error {
	if isNil(object) {
		return fmt.Errorf("watch ended with a nil %T", object)
	}
	status, ok := object.(*metav1.Status)
	if !ok {
		err, is := apierrors.FromObject(object).(apierrors.APIStatus)
		if !is {
			return fmt.Errorf("watch ended with %T", object)
		}
		status = new(err.Status())
	}
	status = status.DeepCopy()
	if isDecodeFailure(status) {
		// If the informer resumed the watch, the server would send the undecodable event again. The error
		// Expired makes the informer list instead, as in client-go. The list may contain a later version
		// of the object.
		status.Code, status.Reason = http.StatusGone, metav1.StatusReasonExpired
	}
	return &apierrors.StatusError{ErrStatus: *status}
}

// ErrPanicked is returned when the program's watch panics and utilruntime.ReallyCrash is false.
var ErrPanicked = errors.New("panicked")

// drainTime limits how long a drain receives events.
const drainTime = time.Second

// ExpectedObject describes the objects that an informer accepts from watches. The informer logs and
// skips events with other objects. An object must have the Go type of the informer's example. An
// unstructured object must have the kind that the example states. No object may be a Table.
// client-go's reflector has the same rules.
type ExpectedObject struct {
	GoType reflect.Type            // nil accepts any type
	gvk    schema.GroupVersionKind // the kind in an unstructured example; empty accepts any kind
}

func ExpectedOf(example runtime.Object) ExpectedObject {
	e := ExpectedObject{GoType: reflect.TypeOf(example)}
	if u, ok := example.(*unstructured.Unstructured); ok {
		e.gvk = u.GroupVersionKind()
	}
	return e
}

// check returns an error if the informer must skip the object.
func (e *ExpectedObject) check(object runtime.Object) error {
	if is := reflect.TypeOf(object); e.GoType != nil && is != e.GoType {
		return fmt.Errorf("expected %s, but watch event object had type %v", e.GoType, is)
	}
	u, ok := object.(*unstructured.Unstructured)
	if !ok || u == nil {
		return nil
	}
	if is := u.GroupVersionKind(); !e.gvk.Empty() && is != e.gvk {
		return fmt.Errorf("expected %s, but watch event object was of %s", e.gvk, is)
	}
	if IsTable(u.GetAPIVersion(), u.GetKind()) {
		return fmt.Errorf("watch event object is a %s of %s", u.GetKind(), u.GetAPIVersion())
	}
	return nil
}

// IsTable reports whether an object is a Table, which a server renders for printing.
func IsTable(apiVersion, kind string) bool {
	group, _, _ := strings.Cut(apiVersion, "/")
	return kind == "Table" && group == metav1.GroupName
}

// drain receives the events that a watch still sends after Stop. Otherwise a watch that wraps
// another watch, such as the watch of watch.Filter, could block for ever in a send. A drain ends
// when the channel is closed, or when a new watch has the same channel. Because not every Stop
// closes the channel, a drain also ends after drainTime, and after maxDrained events.
type drain struct {
	stop, done chan struct{}
	events     []watch.Event // for the next watch with the same channel; valid after done is closed
}

const maxDrained = 1000

// drains contains the active drains by channel, a <-chan watch.Event.
var drains sync.Map

// StopWatch stops a watch and drains it in the background. It does nothing if w is nil. It does not
// drain a watch.ProxyWatcher, because the senders of such a watch check its StopChan. If the watch
// panics, StopWatch recovers the panic, unless utilruntime.ReallyCrash is true.
func StopWatch(w watch.Interface) {
	if isNil(w) {
		return
	}
	defer utilruntime.HandleCrash()
	w.Stop()
	if _, ok := w.(*watch.ProxyWatcher); ok {
		return
	}
	events, d := w.ResultChan(), &drain{stop: make(chan struct{}), done: make(chan struct{})}
	if _, runs := drains.LoadOrStore(events, d); !runs {
		go d.run(events)
	}
}

func (d *drain) run(events <-chan watch.Event) {
	defer close(d.done)
	defer drains.CompareAndDelete(events, d)
	timeout := time.NewTimer(drainTime)
	defer timeout.Stop()
	for len(d.events) < maxDrained {
		select {
		case event, ok := <-events:
			if !ok {
				return
			}
			d.events = append(d.events, event)
		case <-d.stop:
			return
		case <-timeout.C:
			return
		}
	}
}

// endDrain ends the drain of a channel and returns the events that the drain has received. Call it
// when a ListerWatcher returns the same channel again, because the new watch must not lose these
// events.
func endDrain(events <-chan watch.Event) []watch.Event {
	d, ok := drains.LoadAndDelete(events)
	if !ok {
		return nil
	}
	close(d.(*drain).stop)
	<-d.(*drain).done
	return d.(*drain).events
}
