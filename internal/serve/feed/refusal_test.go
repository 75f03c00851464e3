package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirproject/weir/internal/core/reflector"
	"github.com/weirproject/weir/internal/core/source"
	"github.com/weirproject/weir/internal/core/wire"
)

// scriptedSource is a source whose responses a test provides. It ends the reflector when the
// reflector has read all of them.
type scriptedSource struct {
	list   [][]byte       // the objects of the LIST, at version 12; nil: no LIST is expected
	events []source.Event // the events of the WATCH
	end    context.CancelFunc
}

func (s *scriptedSource) NewestVersion(context.Context, metav1.ListOptions) (string, error) {
	return "12", nil
}
func (s *scriptedSource) ServerVersion(context.Context) (int, int, error) { return 1, 37, nil }

func (s *scriptedSource) List(context.Context, metav1.ListOptions) (source.List, error) {
	l := &scriptedList{objects: s.list}
	s.list = nil
	return l, nil
}

func (s *scriptedSource) Watch(context.Context, metav1.ListOptions) (source.Watch, error) {
	if s.list != nil {
		return nil, apierrors.NewResourceExpired("too old resource version")
	}
	return &scriptedWatch{source: s}, nil
}

type scriptedList struct{ objects [][]byte }

func (l *scriptedList) Next() (source.Object, error) {
	if len(l.objects) == 0 {
		return source.Object{}, io.EOF
	}
	raw := l.objects[0]
	l.objects = l.objects[1:]
	return source.Object{Raw: raw}, nil
}

func (l *scriptedList) ItemTypeMeta() wire.TypeMeta { return wire.TypeMeta{} }
func (l *scriptedList) Meta() wire.ListMeta         { return wire.ListMeta{ResourceVersion: "12"} }
func (l *scriptedList) Encoding() wire.Encoding     { return wire.JSON }
func (l *scriptedList) Offset() int64               { return 0 }
func (l *scriptedList) Close() error                { return nil }

type scriptedWatch struct {
	source     *scriptedSource
	beforeRead func()
}

func (w *scriptedWatch) Next() (source.Event, error) {
	if len(w.source.events) == 0 {
		w.beforeRead()
		w.source.end()
		return source.Event{}, io.ErrUnexpectedEOF
	}
	e := w.source.events[0]
	w.source.events = w.source.events[1:]
	return e, nil
}

func (w *scriptedWatch) Buffered() int           { return len(w.source.events) }
func (w *scriptedWatch) BeforeRead(f func())     { w.beforeRead = f }
func (w *scriptedWatch) Encoding() wire.Encoding { return wire.JSON }
func (w *scriptedWatch) Offset() int64           { return 0 }
func (w *scriptedWatch) Close() error            { return nil }

// scriptedObject returns an object as testFeed.put creates it.
func scriptedObject(name string, rv int) []byte {
	return fmt.Appendf(nil, `{"metadata":{"name":%q,"uid":"u-%s","resourceVersion":"%d"},"data":""}`, name, name, rv)
}

// TestNothingAfterRefusal checks that after a refused change the feed reaches no resourceVersion
// that includes the change, even if the reflector has read ahead. A refused object of a relist is
// not deleted. The feed ends.
func TestNothingAfterRefusal(t *testing.T) {
	added := func(name string, rv int) source.Event {
		return source.Event{Type: wire.Added, Object: source.Object{Raw: scriptedObject(name, rv)}}
	}
	for name, tt := range map[string]struct {
		source          *scriptedSource
		fits            int // number of objects that Reserve accepts
		proven          uint64
		want            error
		version, stored int
	}{
		"an event": {
			source: &scriptedSource{events: []source.Event{added("c", 8), added("d", 9), added("e", 10)}},
			fits:   1, want: errFull, version: 8, stored: 3,
		},
		"an object of a relist": {
			source: &scriptedSource{list: [][]byte{scriptedObject("a", 1), scriptedObject("b", 9)}},
			fits:   1, want: errFull, version: 5, stored: 2,
		},
		"an event of another past": {
			source: &scriptedSource{events: []source.Event{added("c", 12), added("d", 25)}},
			fits:   9, proven: 20, want: ErrWentBack, version: 20, stored: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ts := newTestFeed(t, 0)
			ts.reserve = func(int) error {
				if tt.fits--; tt.fits < 0 {
					return errFull
				}
				return nil
			}
			ts.prove(tt.proven)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			tt.source.end = cancel
			err := reflector.New(tt.source, ts.sink, reflector.Config{
				Mode: reflector.List, Backoff: reflector.Backoff{Min: time.Millisecond},
			}).Run(ctx)
			if !errors.Is(err, tt.want) || !errors.Is(ts.ended, tt.want) {
				t.Errorf("it ended by %v and %v, not %v", err, ts.ended, tt.want)
			}
			if got := ts.now(); got != uint64(tt.version) || ts.sink.store.Len() != tt.stored {
				t.Errorf("at %d with %d objects, not at %d with %d", got, ts.sink.store.Len(), tt.version, tt.stored)
			}
		})
	}
}
