package store

// Look is Decoded for somebody who looks once, such as a handler: the decoded form if there is one, else one that is made for
// the caller and that nobody else gets. It leaves no trace, and does not count as a read.
func (o *Object) Look() (any, error) { return o.peek() }

// Glance is Decoded for handlers, which are handed every object, one after another, several handlers the same ones: they share the decoded
// form while somebody uses it, but it does not count as a read, and nothing stays decoded for it.
func (o *Object) Glance() (any, error) { return o.shared(false) }

// Fresh decodes the object's bytes once more, for the caller alone. What others have done to their decoded form does not show. A
// version that is held as a value has no bytes (see Size).
func (o *Object) Fresh() (any, error) { return o.decode() }

// IsDecoded reports whether there is a decoded form now, so that Look would not have to make one.
func (o *Object) IsDecoded() bool {
	d := o.decoded.Load()
	return d != nil && (d.strong.Load() != nil || d.weak.alive())
}

// Held returns the decoded form if the store itself holds it, as it does after a second read: see Decoded. It counts as a read, and never decodes.
func (o *Object) Held() (value any, ok bool) {
	d := o.decoded.Load()
	if d == nil {
		return nil, false
	}
	box := d.strong.Load()
	if box == nil {
		return nil, false
	}
	d.touch()
	return box.value, true
}
