package weir

import (
	"fmt"
	"iter"

	"github.com/weirproject/weir/internal/core/store"
)

// Snapshot is the state of an informer at one moment. It does not change, holds no lock and is safe
// for concurrent use. Informer.Snapshot returns one and copies no objects. While a program uses a
// snapshot, the snapshot's versions of the objects stay in memory. The zero value is not usable.
type Snapshot[T Object] struct {
	name   string
	held   *store.Snapshot
	reader *reader
}

// Snapshot returns the informer's current state.
func (i *informer[T]) Snapshot() Snapshot[T] {
	return Snapshot[T]{i.name, i.store.Snapshot(), i.reader}
}

// Len returns the number of objects.
func (s Snapshot[T]) Len() int { return s.held.Len() }

// ResourceVersion returns the version up to which the snapshot is complete. It is "" if the first
// lists were not complete.
func (s Snapshot[T]) ResourceVersion() string { return s.held.ResourceVersion() }

// Get decodes and returns one object. The key is "namespace/name", or "name" if the object has no
// namespace. The object is shared: do not modify it unless Options.PrivateCopies is set. Get
// returns ErrNotFound for an object that is not in the snapshot.
func (s Snapshot[T]) Get(key string) (T, error) {
	item, ok := s.Item(key)
	if !ok {
		var none T
		return none, notFound(s.name, key)
	}
	return item.Object()
}

// Item returns one object and whether the snapshot contains it. It decodes nothing.
func (s Snapshot[T]) Item(key string) (Item[T], bool) {
	o, ok := s.held.Get(key)
	return Item[T]{o, s.reader, false}, ok
}

// All iterates over every object in key order and decodes each, like Get. For an object that cannot
// be decoded it yields an error, and continues.
func (s Snapshot[T]) All() iter.Seq2[T, error] { return decodeEach(withNilErrors(s.Items())) }

// In iterates over the objects of one namespace and decodes each, like All.
func (s Snapshot[T]) In(namespace string) iter.Seq2[T, error] {
	return decodeEach(withNilErrors(s.ItemsIn(namespace)))
}

// By iterates over the objects that an index lists under a value, and decodes each, like All. If
// the index is unknown, By yields one error, ErrUnknownIndex, and no object. If the index's
// function fails, By yields the function's error and no object.
func (s Snapshot[T]) By(index, value string) iter.Seq2[T, error] {
	return decodeEach(s.ItemsBy(index, value))
}

// Items iterates over every object in key order, without decoding it.
func (s Snapshot[T]) Items() iter.Seq[Item[T]] { return itemsOf[T](s.held.All(), s.reader) }

// ItemsIn iterates over the objects of one namespace in key order, without decoding them.
func (s Snapshot[T]) ItemsIn(namespace string) iter.Seq[Item[T]] {
	return itemsOf[T](s.held.Namespace(namespace), s.reader)
}

// ItemsBy iterates in key order over the objects that an index lists under a value, without
// decoding them. It yields the same errors as By.
func (s Snapshot[T]) ItemsBy(index, value string) iter.Seq2[Item[T], error] {
	return func(yield func(Item[T], error) bool) {
		objects, err := s.held.By(index, value)
		if err != nil {
			yield(Item[T]{}, fmt.Errorf("%s: %w", s.name, err))
			return
		}
		withNilErrors(itemsOf[T](objects, s.reader))(yield)
	}
}

func notFound(name, key string) error { return fmt.Errorf("%s %s: %w", name, key, ErrNotFound) }

func itemsOf[T Object](objects iter.Seq[*store.Object], reader *reader) iter.Seq[Item[T]] {
	return func(yield func(Item[T]) bool) {
		for o := range objects {
			if !yield(Item[T]{o, reader, false}) {
				return
			}
		}
	}
}

// withNilErrors returns a sequence of the items, each with a nil error.
func withNilErrors[T Object](items iter.Seq[Item[T]]) iter.Seq2[Item[T], error] {
	return func(yield func(Item[T], error) bool) {
		for item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// decodeEach decodes each item, and passes errors on.
func decodeEach[T Object](items iter.Seq2[Item[T], error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for item, err := range items {
			var object T
			if err == nil {
				object, err = item.Object()
			}
			if !yield(object, err) {
				return
			}
		}
	}
}
