package wire

import (
	"bytes"
	"strconv"
	"time"
)

// Members of an object's metadata that are read, as bits of what was seen.
const (
	metaNamespace = 1 << iota
	metaName
	metaUID
	metaResourceVersion
	metaGeneration
	metaCreationTimestamp
	metaDeletionTimestamp
	metaLabels
	metaAnnotations
)

// metaMember returns the bit of the metadata member with this name, or 0 if it is not read.
func metaMember(raw []byte) int {
	if bytes.IndexByte(raw, '\\') >= 0 {
		raw = unescape(nil, raw)
	}
	switch string(raw) {
	case "namespace":
		return metaNamespace
	case "name":
		return metaName
	case "uid":
		return metaUID
	case "resourceVersion":
		return metaResourceVersion
	case "generation":
		return metaGeneration
	case "creationTimestamp":
		return metaCreationTimestamp
	case "deletionTimestamp":
		return metaDeletionTimestamp
	case "labels":
		return metaLabels
	case "annotations":
		return metaAnnotations
	}
	return 0
}

// readJSON reads the metadata of a JSON object and stops after it. What a reader or CutObject
// returns has no second metadata.
func (m *Meta) readJSON(object []byte) error {
	members := membersOf(object)
	at, ok := members.find("metadata")
	switch {
	case members.bad:
		return malformed(int64(members.i), "object: not JSON")
	case !ok || isNull(at.of(object)):
		return nil
	}
	return m.readJSONMeta(at.of(object), int64(at.from))
}

func (m *Meta) readJSONMeta(b []byte, offset int64) error {
	members := membersOf(b)
	seen := 0
	for {
		name, at, ok := members.next()
		if !ok {
			break
		}
		member := metaMember(name)
		if member == 0 {
			continue
		}
		if seen&member != 0 {
			return malformedf(offset+int64(at.from), "metadata: %s twice", name)
		}
		seen |= member
		if v := at.of(b); !isNull(v) && !m.setJSON(member, v) {
			return malformedf(offset+int64(at.from), "metadata: %s is not of its type", name)
		}
	}
	if members.bad {
		return malformed(offset+int64(members.i), "metadata: not an object")
	}
	return nil
}

// setJSON sets m from the value of one member. It reports false for a value that is no text where
// that tells objects apart. Any other value of another type counts as none, as it does to
// unstructured.Unstructured.
func (m *Meta) setJSON(member int, v []byte) (ok bool) {
	switch member {
	case metaLabels:
		if stringMap(v) {
			m.labels = v
		}
		return true
	case metaAnnotations:
		if stringMap(v) {
			m.annotations = v
		}
		return true
	case metaGeneration:
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			m.Generation = n
		}
		return true
	}
	if !isString(v) {
		return member == metaCreationTimestamp || member == metaDeletionTimestamp
	}
	var text []byte
	text, m.text = stringText(m.text, v)
	switch member {
	case metaNamespace:
		m.Namespace = text
	case metaName:
		m.Name = text
	case metaUID:
		m.UID = text
	case metaResourceVersion:
		m.ResourceVersion = text
	case metaCreationTimestamp:
		m.CreationTimestamp = jsonTime(text)
	case metaDeletionTimestamp:
		m.DeletionTimestamp = jsonTime(text)
	}
	return true
}

// jsonTime returns the time that metav1.Time reads, or the zero time if that would fail.
func jsonTime(text []byte) (t time.Time) {
	if t.UnmarshalText(text) != nil {
		t, _ = time.Parse(time.RFC3339, string(text)) // which is less strict
	}
	return t.UTC()
}

// stringMap reports whether v is a JSON object whose values are strings or null. null decodes as
// "".
func stringMap(v []byte) bool {
	members := membersOf(v)
	for {
		_, at, ok := members.next()
		if !ok {
			return !members.bad
		}
		if value := at.of(v); !isString(value) && !isNull(value) {
			return false
		}
	}
}

func (m *Meta) lookupJSONEntry(entries []byte, key string) (value []byte, ok bool) {
	if entries == nil {
		return nil, false
	}
	var found span
	members := membersOf(entries)
	for at, ok := members.find(key); ok; at, ok = members.find(key) {
		found = at
	}
	if found == (span{}) {
		return nil, false
	}
	value, m.pair = entryText(m.pair[:0], found.of(entries))
	return value, true
}

func (m *Meta) eachJSONEntry(entries []byte, yield func(key, value []byte) bool) {
	if entries == nil {
		return
	}
	members := membersOf(entries)
	for {
		key, at, ok := members.next()
		if !ok {
			return
		}
		pair := m.pair[:0]
		if bytes.IndexByte(key, '\\') >= 0 {
			pair = unescape(pair, key)
			key = pair[:len(pair):len(pair)]
		}
		var value []byte
		value, m.pair = entryText(pair, at.of(entries))
		if !yield(key, value) {
			return
		}
	}
}

// entryText returns the text of a map's value, as stringText does. null means "".
func entryText(scratch, v []byte) (text, newScratch []byte) {
	if !isString(v) {
		return nil, scratch
	}
	return stringText(scratch, v)
}
