package store

import "sync"

// changeValues are the decoded values of a change's versions. The log refers to them so that all
// handlers receive the same values.
type changeValues struct {
	was, is *decodedBox
	bytes   int64 // estimate
}

// Values returns the decoded values of a change's versions for a handler, and nil for a version
// that the change lacks. Handlers and readers share them: copy a value before you modify it.
//
// The first handler decodes the values that do not exist yet, both versions together if there is a
// Config.DecodeUpdate. The other handlers receive the same values: the log keeps them with the
// change until the last handler has passed it, up to LogBytes. At the object's next change, the new
// value of this change is the old value, unless the garbage collector has freed it. Values does not
// count as a read of Decoded. Its error is that of Decoded. Values is safe for concurrent use.
func (s *Store) Values(ch *Change) (was, is any, err error) {
	if ch.Old != nil && ch.Old == ch.New { // a resync
		_, is, err = s.Values(&Change{Revision: ch.Revision, New: ch.New})
		return is, is, err
	}
	old, fresh := ch.Old.existing(), ch.New.existing()
	needsOld, needsNew := ch.Old != nil && old == nil, ch.New != nil && fresh == nil
	if needsOld || needsNew {
		if old, fresh, err = s.decodeChange(ch, old, fresh); err != nil {
			return nil, nil, err
		}
		handlers := s.log.handlers.Load()
		if needsOld && handlers > 1 {
			old = s.publish(ch.Old, old)
		}
		if needsNew && (handlers > 1 || !ch.Initial) {
			fresh = s.publish(ch.New, fresh)
		}
		if handlers > 1 {
			s.log.keepValues(ch, old, fresh)
		}
	}
	if old != nil {
		was = old.value
	}
	if fresh != nil {
		is = fresh.value
	}
	return was, is, nil
}

// decodeChange decodes the versions of a change that have no value yet.
func (s *Store) decodeChange(ch *Change, old, fresh *decodedBox) (_, _ *decodedBox, err error) {
	misses := &s.decoder.cache.misses
	if ch.Old != nil && ch.New != nil && fresh == nil {
		if was, is, ok := s.decodeUpdate(ch, old); ok {
			if misses.Add(1); old == nil {
				old = &decodedBox{was}
				misses.Add(1)
			}
			return old, &decodedBox{is}, nil
		}
	}
	decode := func(o *Object, box *decodedBox) (*decodedBox, error) {
		if o == nil || box != nil {
			return box, nil
		}
		value, err := o.decodeBy(s.decoder.decode)
		misses.Add(1)
		return &decodedBox{value}, err
	}
	if old, err = decode(ch.Old, old); err == nil {
		fresh, err = decode(ch.New, fresh)
	}
	return old, fresh, err
}

// decodeUpdate decodes a change's versions with Config.DecodeUpdate. has is the value of the old
// version, or nil. It returns false if a version has no bytes, or after an error. The caller then
// decodes the versions separately, which returns the error with the object's key.
func (s *Store) decodeUpdate(ch *Change, has *decodedBox) (was, is any, ok bool) {
	if s.decoder.decodeUpdate == nil || ch.Old.size == 0 || ch.New.size == 0 {
		return nil, nil, false
	}
	buf := versionBuffers.Get().(*versionBuffer)
	defer buf.release()
	if has != nil {
		was = has.value
	}
	var err error
	if buf.was, buf.is, err = appendVersions(ch.Old, ch.New, buf.was[:0], buf.is[:0]); err != nil {
		return nil, nil, false
	}
	was, is, err = s.decoder.decodeUpdate(was, buf.was, buf.is)
	return was, is, err == nil
}

// versionBuffer contains the bytes of two versions while they are decoded.
type versionBuffer struct{ was, is []byte }

var versionBuffers = sync.Pool{New: func() any { return new(versionBuffer) }}

// release returns the buffer to the pool, unless it has grown beyond maxScratch.
func (b *versionBuffer) release() {
	if cap(b.was)+cap(b.is) <= maxScratch {
		versionBuffers.Put(b)
	}
}

// publish sets the decoded value of a version, and returns it. The version refers to the value
// weakly, so the value stays in memory as long as a caller or the log uses it. If the version
// already has a value, publish returns that value instead. The caller must use the returned value.
func (s *Store) publish(o *Object, box *decodedBox) *decodedBox {
	if o.size == 0 {
		return box // the version refers to the value permanently
	}
	fresh := newDecodedEntry(box, o.decodedBytes())
	for {
		d := o.decoded.Load()
		if first, _ := d.load(); first != nil {
			return first
		}
		if o.decoded.CompareAndSwap(d, fresh) {
			s.decoder.cache.replace(o, d, fresh)
			return box
		}
	}
}

// keepValues stores the values of a change until the last handler has passed the change. It does
// nothing if that has happened already, or if there is no room. It never drops other values to make
// room: the slowest handler needs the oldest values next.
func (l *changeLog) keepValues(ch *Change, was, is *decodedBox) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.values[ch.Revision]
	before := v.bytes
	if v.was == nil && was != nil {
		v.was, v.bytes = was, v.bytes+ch.Old.decodedBytes()
	}
	if v.is == nil && is != nil {
		v.is, v.bytes = is, v.bytes+ch.New.decodedBytes()
	}
	more := v.bytes - before
	if more == 0 || l.keep || ch.Revision < l.base || ch.Revision >= l.next() || l.decoded.forHandlers.Load()+more > l.valueLimit {
		return
	}
	if l.values == nil {
		l.values = make(map[uint64]changeValues)
	}
	l.values[ch.Revision] = v
	l.decoded.addForHandlers(more)
}

// dropValues drops the values of a revision that leaves the log. The caller holds the lock.
func (l *changeLog) dropValues(rev uint64) {
	v, ok := l.values[rev]
	if !ok {
		return
	}
	l.decoded.addForHandlers(-v.bytes)
	if delete(l.values, rev); len(l.values) == 0 {
		l.values = nil // a map does not shrink
	}
}
