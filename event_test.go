package weir

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirproject/weir/internal/core/store"
	"github.com/weirproject/weir/internal/core/wire"
	"github.com/weirproject/weir/internal/testing/check"
)

// write passes a pod to a writer's Put or Delete.
func write(t *testing.T, do func(*wire.Meta, []byte) error, name, uid, resourceVersion string) {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, UID: types.UID(uid), ResourceVersion: resourceVersion}}
	raw, err := p.Marshal()
	check.NoError(t, err)
	var m wire.Meta
	check.NoError(t, wire.ReadMeta(wire.Protobuf, raw, &m))
	check.NoError(t, do(&m, raw))
}

// TestEventsOfDeletions: an event carries the version at which an object was deleted, and reports
// whether the handler received its final state. An object that takes another object's name is not
// an update of it.
func TestEventsOfDeletions(t *testing.T) {
	f := NewFactory(t.Context(), unreachable())
	defer f.Shutdown()
	l := acquired(t, f, Options{})
	told := make(chan string)
	if _, err := l.Handle(func(ctx context.Context, e Event[*corev1.Pod]) {
		line := fmt.Sprintf("%s %s at %q", e.Type, e.Item().UID(), e.ResourceVersion())
		if !e.OldItem().IsZero() {
			line += " from " + e.OldItem().ResourceVersion()
		}
		if e.FinalStateUnknown {
			line += " unknown"
		}
		if p, err := e.Object(); err != nil || string(p.UID) != e.Item().UID() {
			line += fmt.Sprintf(": %v %v", p, err)
		}
		if _, err := e.Old(); (e.Type == Added) != errors.Is(err, ErrNotFound) {
			line += fmt.Sprintf(": old %v", err)
		}
		select {
		case told <- line:
		case <-ctx.Done():
		}
	}, HandlerOptions[*corev1.Pod]{}); err != nil {
		t.Fatal(err)
	}
	w := l.informer.store.Writer(store.Scope{})
	w.BeginReplace(false)
	write(t, w.Put, "a", "one", "1")
	w.EndReplace("2")
	for _, step := range []struct {
		do   func()
		want []string
	}{
		{func() {}, []string{`ADDED one at "1"`}},
		{func() { write(t, w.Put, "a", "one", "3") }, []string{`MODIFIED one at "3" from 1`}},
		{func() { write(t, w.Put, "a", "two", "5") }, []string{`DELETED one at "" from 3 unknown`, `ADDED two at "5"`}},
		{func() { write(t, w.Delete, "a", "two", "6") }, []string{`DELETED two at "6" from 5`}},
		{func() { write(t, w.Put, "a", "three", "7") }, []string{`ADDED three at "7"`}},
		{func() { w.BeginReplace(false); w.EndReplace("9") }, []string{`DELETED three at "9" from 7 unknown`}},
	} {
		step.do()
		w.Flush()
		for _, want := range step.want {
			check.Equal(t, <-told, want)
		}
	}
}
