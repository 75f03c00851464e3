package clientgo

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
)

// expectedObject describes the objects that an informer accepts from watches. The informer reports
// and skips events with other objects, by the rules of client-go's reflector: the Go type must be
// the example's, an unstructured object must have the kind that the example states, and no object
// may be a Table.
type expectedObject struct {
	goType reflect.Type            // nil is any
	gvk    schema.GroupVersionKind // of an unstructured example that states a kind; else empty
}

func expectedOf(example runtime.Object) expectedObject {
	e := expectedObject{goType: reflect.TypeOf(example)}
	if u, ok := example.(*unstructured.Unstructured); ok {
		e.gvk = u.GroupVersionKind()
	}
	return e
}

// check returns an error for an object that the informer skips.
func (e *expectedObject) check(object runtime.Object) error {
	if is := reflect.TypeOf(object); e.goType != nil && is != e.goType {
		return fmt.Errorf("expected %s, but watch event object had type %v", e.goType, is)
	}
	u, ok := object.(*unstructured.Unstructured)
	if !ok || u == nil {
		return nil
	}
	if is := u.GroupVersionKind(); !e.gvk.Empty() && is != e.gvk {
		return fmt.Errorf("expected %s, but watch event object was of %s", e.gvk, is)
	}
	if isTable(u.GetAPIVersion(), u.GetKind()) {
		return fmt.Errorf("watch event object is a %s of %s", u.GetKind(), u.GetAPIVersion())
	}
	return nil
}

// isTable reports whether an object is a table, which a server renders for printing.
func isTable(apiVersion, kind string) bool {
	group, _, _ := strings.Cut(apiVersion, "/")
	return kind == "Table" && group == metav1.GroupName
}

// capturedWatch is a captured watch that skips events with objects that are not the informer's.
type capturedWatch struct {
	source.Watch
	context  context.Context
	name     string // of the informer
	matcher  responseMatcher
	resource schema.GroupVersionResource // of the request
	accepted wire.TypeMeta               // the type of the last accepted event
}

// Next returns the next event of an object of the informer's kind. It reports and skips others.
func (w *capturedWatch) Next() (source.Event, error) {
	for {
		event, err := w.Watch.Next()
		if err != nil || event.Type == wire.Error || event.TypeMeta == w.accepted {
			return event, err
		}
		if w.matcher.matchObject(w.resource, event.TypeMeta) {
			w.accepted = event.TypeMeta
			return event, nil
		}
		utilruntime.HandleErrorWithContext(w.context, errOtherKind, "A watch event is skipped", "informer", w.name,
			"apiVersion", event.TypeMeta.APIVersion, "kind", event.TypeMeta.Kind)
	}
}
