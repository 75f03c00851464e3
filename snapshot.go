package weir

import (
	"fmt"
	"iter"

	"github.com/weirproject/weir/internal/store"
)

// Snapshot is everything that an informer held at one moment. It does not change, costs next to nothing to take, holds
// no lock and is safe for concurrent use; while it is kept, so are the versions in it.
type Snapshot[T Object] struct {
	s    *store.Snapshot
	from *reader
}

// Snapshot gives what the informer holds now.
func (i *Informer[T]) Snapshot() Snapshot[T] { return Snapshot[T]{i.store.Snapshot(), i.reader} }

// Get is the newest version of one object, decoded as Item.Object does it: shared and read-only, mostly. The key is "namespace/name", or "name" where
// there is no namespace. ErrNotFound when it is not held.
func (i *Informer[T]) Get(key string) (T, error) {
	o, ok := i.store.Get(key)
	if !ok {
		var zero T
		return zero, fmt.Errorf("%s %s: %w", i.name, key, ErrNotFound)
	}
	return Item[T]{o, i.reader, false}.Object()
}

// Item is the newest version of one object, not decoded.
func (i *Informer[T]) Item(key string) (Item[T], bool) {
	o, ok := i.store.Get(key)
	return Item[T]{o, i.reader, false}, ok
}

// Len is how many objects are held.
func (i *Informer[T]) Len() int { return i.store.Len() }

// All reads every object of one snapshot in the order of their keys, decoded as Item.Object does it. An object that
// cannot be decoded comes as an error, and the iteration goes on.
func (i *Informer[T]) All() iter.Seq2[T, error] { return i.Snapshot().All() }

// By reads the objects of one snapshot that an index has under a value, decoded, in the order of their keys.
func (i *Informer[T]) By(index, value string) iter.Seq2[T, error] {
	return i.Snapshot().By(index, value)
}

// Len is how many objects there are.
func (s Snapshot[T]) Len() int { return s.s.Len() }

// ResourceVersion is one up to which the snapshot holds everything.
func (s Snapshot[T]) ResourceVersion() string { return s.s.ResourceVersion() }

// Get is one object, decoded as Item.Object does it. ErrNotFound when it is not held.
func (s Snapshot[T]) Get(key string) (T, error) {
	o, ok := s.s.Get(key)
	if !ok {
		var zero T
		return zero, fmt.Errorf("%s: %w", key, ErrNotFound)
	}
	return Item[T]{o, s.from, false}.Object()
}

// All reads every object, as Informer.All.
func (s Snapshot[T]) All() iter.Seq2[T, error] { return decoded(s.Items()) }

// By reads the objects that an index has under a value, as Informer.By. An index that is not there, or a function of
// somebody's that fails, comes as one error and no object.
func (s Snapshot[T]) By(index, value string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		items, err := s.ItemsBy(index, value)
		if err != nil {
			var zero T
			yield(zero, err)
			return
		}
		decoded(items)(yield)
	}
}

// Items reads every object in the order of their keys and decodes none.
func (s Snapshot[T]) Items() iter.Seq[Item[T]] { return itemsOf[T](s.s.All(), s.from) }

// ItemsIn reads the objects of one namespace and decodes none.
func (s Snapshot[T]) ItemsIn(namespace string) iter.Seq[Item[T]] {
	return itemsOf[T](s.s.Namespace(namespace), s.from)
}

// ItemsBy reads the objects that an index has under a value and decodes none. ErrUnknownIndex when there is no such
// index.
func (s Snapshot[T]) ItemsBy(index, value string) (iter.Seq[Item[T]], error) {
	objects, err := s.s.By(index, value)
	if err != nil {
		return nil, err
	}
	return itemsOf[T](objects, s.from), nil
}

func itemsOf[T Object](objects iter.Seq[*store.Object], from *reader) iter.Seq[Item[T]] {
	return func(yield func(Item[T]) bool) {
		for o := range objects {
			if !yield(Item[T]{o, from, false}) {
				return
			}
		}
	}
}

func decoded[T Object](items iter.Seq[Item[T]]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for i := range items {
			if !yield(i.Object()) {
				return
			}
		}
	}
}
