package weir

import (
	"fmt"
	"iter"

	"github.com/weirproject/weir/internal/store"
)

// Snapshot is everything that an informer held at one moment. It does not change, costs next to
// nothing to take, holds no lock and is safe for concurrent use. While it is kept, so are the
// versions in it. The zero value is of no use: take one with Informer.Snapshot.
type Snapshot[T Object] struct {
	name   string
	held   *store.Snapshot
	reader *reader
}

// Snapshot returns what the informer holds now.
func (i *Informer[T]) Snapshot() Snapshot[T] {
	return Snapshot[T]{i.name, i.store.Snapshot(), i.reader}
}

// Len returns how many objects there are.
func (s Snapshot[T]) Len() int { return s.held.Len() }

// ResourceVersion returns one up to which the snapshot holds everything; "" before the first list
// has come.
func (s Snapshot[T]) ResourceVersion() string { return s.held.ResourceVersion() }

// Get decodes and returns one object. The key is "namespace/name", or "name" where there is no
// namespace. The object is shared: do not modify it unless Options.PrivateCopies is set. It returns
// ErrNotFound for an object that is not held.
func (s Snapshot[T]) Get(key string) (T, error) {
	item, ok := s.Item(key)
	if !ok {
		var none T
		return none, notFound(s.name, key)
	}
	return item.Object()
}

// Item returns one object and whether it is held. It decodes nothing.
func (s Snapshot[T]) Item(key string) (Item[T], bool) {
	o, ok := s.held.Get(key)
	return Item[T]{o, s.reader, false}, ok
}

// All reads every object in the order of their keys, decoded as Get decodes it. An object that
// cannot be decoded comes as an error, and the iteration goes on.
func (s Snapshot[T]) All() iter.Seq2[T, error] { return decodeEach(withNilErrors(s.Items())) }

// In reads the objects of one namespace, as All reads every one.
func (s Snapshot[T]) In(namespace string) iter.Seq2[T, error] {
	return decodeEach(withNilErrors(s.ItemsIn(namespace)))
}

// By reads the objects that an index has under a value, as All reads every one. An index that is
// not there comes as one ErrUnknownIndex, and an index function that fails as its error; no object
// comes then.
func (s Snapshot[T]) By(index, value string) iter.Seq2[T, error] {
	return decodeEach(s.ItemsBy(index, value))
}

// Items reads every object in the order of their keys and decodes none.
func (s Snapshot[T]) Items() iter.Seq[Item[T]] { return itemsOf[T](s.held.All(), s.reader) }

// ItemsIn reads the objects of one namespace in the order of their keys and decodes none.
func (s Snapshot[T]) ItemsIn(namespace string) iter.Seq[Item[T]] {
	return itemsOf[T](s.held.Namespace(namespace), s.reader)
}

// ItemsBy reads the objects that an index has under a value, in the order of their keys, and
// decodes none. Its errors are those of By.
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

// decodeEach returns the objects of the items.
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
