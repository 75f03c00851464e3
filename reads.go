package weir

import "iter"

// Get decodes and returns the newest stored version of one object. The key is "namespace/name", or
// "name" if the object has no namespace. The object is shared: do not modify it unless
// Options.PrivateCopies is set. Get returns ErrNotFound for an object that the informer does not
// store. It sends no request.
func (i *informer[T]) Get(key string) (T, error) {
	item, ok := i.Item(key)
	if !ok {
		var none T
		return none, notFound(i.name, key)
	}
	return item.Object()
}

// Item returns the newest stored version of one object, and whether the informer stores the object.
// It decodes nothing.
func (i *informer[T]) Item(key string) (Item[T], bool) {
	o, ok := i.store.Get(key)
	return Item[T]{o, i.reader, false}, ok
}

// Len returns the number of stored objects.
func (i *informer[T]) Len() int { return i.store.Len() }

// ResourceVersion returns the version up to which the informer has received everything. It is ""
// before the first lists are complete.
func (i *informer[T]) ResourceVersion() string { return i.store.ResourceVersion() }

// All iterates over every object of one snapshot, decoded. See Snapshot.All.
func (i *informer[T]) All() iter.Seq2[T, error] { return i.Snapshot().All() }

// In iterates over the objects of one namespace in one snapshot, decoded. See Snapshot.In.
func (i *informer[T]) In(namespace string) iter.Seq2[T, error] { return i.Snapshot().In(namespace) }

// By iterates over the objects that an index of one snapshot lists under a value, decoded. See
// Snapshot.By.
func (i *informer[T]) By(index, value string) iter.Seq2[T, error] {
	return i.Snapshot().By(index, value)
}

// Items iterates over every object of one snapshot without decoding it. See Snapshot.Items.
func (i *informer[T]) Items() iter.Seq[Item[T]] { return i.Snapshot().Items() }

// ItemsIn iterates over the objects of one namespace in one snapshot without decoding them. See
// Snapshot.ItemsIn.
func (i *informer[T]) ItemsIn(namespace string) iter.Seq[Item[T]] {
	return i.Snapshot().ItemsIn(namespace)
}

// ItemsBy iterates over the objects that an index of one snapshot lists under a value, without
// decoding them. See Snapshot.ItemsBy.
func (i *informer[T]) ItemsBy(index, value string) iter.Seq2[Item[T], error] {
	return i.Snapshot().ItemsBy(index, value)
}
