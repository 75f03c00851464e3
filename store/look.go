package store

// Look is Decoded for somebody who looks once, such as a handler: the decoded form if there is one, else one that is made for
// the caller and that nobody else gets. It leaves no trace, and does not count as a read.
func (o *Object) Look() (any, error) { return o.peek() }

// IsDecoded reports whether there is a decoded form now, so that Look would not have to make one.
func (o *Object) IsDecoded() bool {
	d := o.decoded.Load()
	return d != nil && (d.strong.Load() != nil || d.weak.alive())
}
