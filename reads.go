package weir

import "iter"

// Get decodes and returns the newest version of one object. The key is "namespace/name", or "name"
// where there is no namespace. The object is shared: do not modify it unless Options.PrivateCopies
// is set. It returns ErrNotFound for an object that is not held. It never blocks.
func (i *Informer[T]) Get(key string) (T, error) {
	item, ok := i.Item(key)
	if !ok {
		var none T
		return none, notFound(i.name, key)
	}
	return item.Object()
}

// Item returns the newest version of one object and whether it is held. It decodes nothing.
func (i *Informer[T]) Item(key string) (Item[T], bool) {
	o, ok := i.store.Get(key)
	return Item[T]{o, i.reader, false}, ok
}

// Len returns how many objects are held.
func (i *Informer[T]) Len() int { return i.store.Len() }

// ResourceVersion returns one up to which everything is held; "" before the first list has come.
func (i *Informer[T]) ResourceVersion() string { return i.store.ResourceVersion() }

// All reads every object of one snapshot, as Snapshot.All.
func (i *Informer[T]) All() iter.Seq2[T, error] { return i.Snapshot().All() }

// In reads the objects of one namespace in one snapshot, as Snapshot.In.
func (i *Informer[T]) In(namespace string) iter.Seq2[T, error] { return i.Snapshot().In(namespace) }

// By reads the objects that an index has under a value in one snapshot, as Snapshot.By.
func (i *Informer[T]) By(index, value string) iter.Seq2[T, error] {
	return i.Snapshot().By(index, value)
}

// Items reads every object of one snapshot and decodes none, as Snapshot.Items.
func (i *Informer[T]) Items() iter.Seq[Item[T]] { return i.Snapshot().Items() }

// ItemsIn reads the objects of one namespace in one snapshot and decodes none, as Snapshot.ItemsIn.
func (i *Informer[T]) ItemsIn(namespace string) iter.Seq[Item[T]] {
	return i.Snapshot().ItemsIn(namespace)
}

// ItemsBy reads the objects that an index has under a value in one snapshot and decodes none, as
// Snapshot.ItemsBy.
func (i *Informer[T]) ItemsBy(index, value string) iter.Seq2[Item[T], error] {
	return i.Snapshot().ItemsBy(index, value)
}
