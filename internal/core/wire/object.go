package wire

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
)

// AppendObject appends object in the form of the body of a response to GET. In protobuf that is the
// object in its envelope. In JSON it is the object, with tm's kind and apiVersion added in front if
// the object lacks them.
func AppendObject(dst []byte, enc Encoding, tm TypeMeta, object []byte) []byte {
	if enc == Protobuf {
		return appendEnvelope(dst, tm, object)
	}
	return appendJSONObject(dst, tm, object)
}

// CutObject returns the type and the bytes of the object in body, the body of a POST or PUT. The
// bytes alias body. In JSON, CutObject checks the syntax of the whole body. The error is a
// *SyntaxError.
func CutObject(enc Encoding, body []byte) (TypeMeta, []byte, error) {
	if enc == Protobuf {
		var tm TypeMeta
		raw, err := cutEnvelope(body, 0, &tm)
		return tm, raw, err
	}
	return cutJSONObject(body)
}

// AppendWithResourceVersion appends object with its metadata.resourceVersion set to rv. dst must
// not overlap object. The error is a *SyntaxError; dst is then returned unchanged.
func AppendWithResourceVersion(dst []byte, enc Encoding, object []byte, rv string) ([]byte, error) {
	if enc == Protobuf {
		return appendProtoVersion(dst, object, rv)
	}
	return appendJSONVersion(dst, object, rv)
}

// appendProtoVersion implements AppendWithResourceVersion for protobuf. It keeps the order of the
// fields, and inserts a missing resourceVersion before the metadata fields with higher numbers. So
// the result is equal to the marshalled changed object. If the object has no metadata,
// appendProtoVersion appends metadata after the other fields.
func appendProtoVersion(dst, object []byte, rv string) ([]byte, error) {
	was := len(dst)
	found := false
	var f protoField
	for i := 0; i < len(object); {
		next := f.consume(object, i)
		if next < 0 {
			return dst[:was], fieldError(int64(i), "object", next)
		}
		if f.num != protoMetadata {
			dst = append(dst, object[i:next]...)
			i = next
			continue
		}
		if f.typ != typeBytes || found {
			return dst[:was], malformed(int64(i), "object: field 1 is not one message of metadata")
		}
		found = true
		var err error
		if dst, err = appendMetaVersion(dst, f.bytes, int64(next-len(f.bytes)), rv); err != nil {
			return dst[:was], err
		}
		i = next
	}
	if !found {
		dst = appendLength(dst, protoMetadata, bytesSize(len(rv)))
		dst = appendBytes(dst, protoResourceVersion, rv)
	}
	return dst, nil
}

// appendMetaVersion appends the metadata field with its resourceVersion set to rv. meta is the
// field's content, which starts at offset.
func appendMetaVersion(dst, meta []byte, offset int64, rv string) ([]byte, error) {
	from, to := -1, len(meta)
	var f protoField
	for i := 0; i < len(meta); {
		next := f.consume(meta, i)
		switch {
		case next < 0:
			return dst, fieldError(offset+int64(i), "metadata", next)
		case f.num == protoResourceVersion && (f.typ != typeBytes || from >= 0 && to > from):
			return dst, malformed(offset+int64(i), "metadata: resourceVersion is not one string")
		case f.num == protoResourceVersion:
			from, to = i, next
		case f.num > protoResourceVersion && from < 0:
			from, to = i, i
		}
		i = next
	}
	if from < 0 {
		from = len(meta)
	}
	dst = appendLength(dst, protoMetadata, len(meta)-(to-from)+bytesSize(len(rv)))
	dst = append(dst, meta[:from]...)
	dst = appendBytes(dst, protoResourceVersion, rv)
	return append(dst, meta[to:]...), nil
}

// objectNotes records the positions of an object's members metadata, kind and apiVersion, relative
// to the object. twice is true if one of the three occurs twice.
type objectNotes struct {
	metadata, kind, apiVersion span
	twice                      bool
}

// scan checks the value at b[i:] and returns what scanValue returns. If the value is an object, it
// records the members.
func (n *objectNotes) scan(b []byte, i, depth int) (int, scanResult) {
	*n = objectNotes{}
	if i >= len(b) || b[i] != '{' {
		return scanValue(b, i, depth)
	}
	w := jsonWalk{b: b, i: i, depth: depth}
	for w.next() {
		var to *span
		switch {
		case nameIs(w.name, "metadata"):
			to = &n.metadata
		case nameIs(w.name, "kind"):
			to = &n.kind
		case nameIs(w.name, "apiVersion"):
			to = &n.apiVersion
		default:
			continue
		}
		n.twice = n.twice || *to != span{}
		*to = span{w.value.from - i, w.value.to - i}
	}
	return w.i, w.result
}

// problem returns the reason why v cannot be an object, or "". scan must have checked v before.
func (n *objectNotes) problem(v []byte) string {
	switch {
	case v[0] != '{':
		return "is not an object"
	case n.twice:
		return "a member twice"
	}
	return ""
}

// typeMeta sets t to the type that an object states. If the object does not state its kind or
// apiVersion, that field of t becomes empty. typeMeta allocates only if a field changes or has
// escapes.
func (n *objectNotes) typeMeta(object []byte, t *TypeMeta) error {
	var texts [2][]byte
	for i, at := range [2]span{n.apiVersion, n.kind} {
		switch v := at.of(object); {
		case len(v) == 0 || isNull(v):
		case isString(v):
			texts[i], _ = stringText(nil, v)
		default:
			return fmt.Errorf("%s is not a string", [2]string{"apiVersion", "kind"}[i])
		}
	}
	t.set(texts[0], texts[1])
	return nil
}

// appendJSONObject appends object, with tm's kind and apiVersion added in front if object lacks
// them.
func appendJSONObject(dst []byte, tm TypeMeta, object []byte) []byte {
	var hasKind, hasVersion bool
	w := membersOf(object)
	for (!hasKind || !hasVersion) && w.next() {
		hasKind = hasKind || nameIs(w.name, "kind")
		hasVersion = hasVersion || nameIs(w.name, "apiVersion")
	}
	var missing []byte
	if !hasKind && tm.Kind != "" {
		missing = fmt.Appendf(nil, `"kind":%s`, marshalJSON(tm.Kind))
	}
	if !hasVersion && tm.APIVersion != "" {
		missing = fmt.Appendf(comma(missing, 0), `"apiVersion":%s`, marshalJSON(tm.APIVersion))
	}
	if missing == nil || bytes.IndexByte(object, '{') < 0 {
		return append(dst, object...)
	}
	return insertFirst(dst, object, missing)
}

// cutJSONObject checks that body is one JSON object, and returns the object without the whitespace
// around it.
func cutJSONObject(body []byte) (TypeMeta, []byte, error) {
	var tm TypeMeta
	var notes objectNotes
	from := skipSpace(body, 0)
	if from >= len(body) || body[from] != '{' {
		return tm, nil, malformed(int64(from), "object: is not a JSON object")
	}
	end, r := notes.scan(body, from, 0)
	switch {
	case r == scanMore:
		return tm, nil, &SyntaxError{Offset: int64(len(body)), What: "object", Err: io.ErrUnexpectedEOF}
	case r != scanDone:
		return tm, nil, malformed(int64(end), "object: "+scanProblems[r])
	}
	object := body[from:end:end]
	if end = skipSpace(body, end); end < len(body) {
		return tm, nil, malformedf(int64(end), "object: %q after its end", body[end])
	}
	problem := notes.problem(object)
	if problem == "" {
		if err := notes.typeMeta(object, &tm); err != nil {
			problem = err.Error()
		}
	}
	if problem != "" {
		return tm, nil, malformed(int64(from), "object: "+problem)
	}
	return tm, object, nil
}

func appendJSONVersion(dst, object []byte, rv string) ([]byte, error) {
	was := len(dst)
	w := membersOf(object)
	found := w.find("metadata")
	switch {
	case w.failed():
		return dst, malformed(int64(w.i), "object: not JSON")
	case !found:
		meta, _ := appendJSONMetaVersion([]byte(`"metadata":`), []byte("{}"), rv)
		return insertFirst(dst, object, meta), nil
	}
	dst = append(dst, object[:w.value.from]...)
	dst, ok := appendJSONMetaVersion(dst, w.value.of(object), rv)
	if !ok {
		return dst[:was], malformed(int64(w.value.from), "metadata: not an object with one resourceVersion")
	}
	return append(dst, object[w.value.to:]...), nil
}

func appendJSONMetaVersion(dst, meta []byte, rv string) ([]byte, bool) {
	if isNull(meta) {
		meta = []byte("{}")
	}
	w := membersOf(meta)
	found := w.find("resourceVersion")
	at := w.value
	if w.find("resourceVersion") || w.failed() {
		return dst, false
	}
	if found {
		dst = append(append(dst, meta[:at.from]...), marshalJSON(rv)...)
		return append(dst, meta[at.to:]...), true
	}
	return insertFirst(dst, meta, fmt.Appendf(nil, `"resourceVersion":%s`, marshalJSON(rv))), true
}

// AppendWithAPIVersion appends a JSON object with its apiVersion replaced. An object without
// apiVersion is appended unchanged. dst must not overlap object. The error is a *SyntaxError; dst
// is then returned unchanged.
func AppendWithAPIVersion(dst, object []byte, apiVersion string) ([]byte, error) {
	w := membersOf(object)
	found := w.find("apiVersion")
	switch {
	case w.failed():
		return dst, malformed(int64(w.i), "object: not JSON")
	case !found:
		return append(dst, object...), nil
	}
	dst = append(append(dst, object[:w.value.from]...), marshalJSON(apiVersion)...)
	return append(dst, object[w.value.to:]...), nil
}

// insertFirst appends object, with member inserted before object's other members.
func insertFirst(dst, object, member []byte) []byte {
	brace := bytes.IndexByte(object, '{')
	dst = append(dst, object[:brace+1]...)
	dst = append(dst, member...)
	rest := object[brace+1:]
	if i := skipSpace(rest, 0); i < len(rest) && rest[i] != '}' {
		dst = append(dst, ',')
	}
	return append(dst, rest...)
}

var fingerprintSeed = maphash.MakeSeed()

// Fingerprint returns a hash of an object's bytes, which is never 0. If a server sends one version
// of an object both as the item of a LIST and in a WATCH event, both have the same fingerprint. For
// this, Fingerprint ignores a JSON apiVersion and kind in front of the other members, because LIST
// items of built-in kinds lack them. Objects with different fingerprints may still have the same
// content; see Same. The hash differs between processes.
func Fingerprint(enc Encoding, object []byte) uint64 {
	if enc == JSON {
		object = behindTypeMeta(object)
	}
	return max(1, maphash.Bytes(fingerprintSeed, object))
}

// behindTypeMeta returns the part of object from the first member that is neither apiVersion nor
// kind.
func behindTypeMeta(object []byte) []byte {
	rest := object
	w := membersOf(object)
	for w.toValue() && (string(w.name) == "kind" || string(w.name) == "apiVersion") {
		if !w.skip() {
			break
		}
		rest = object[w.i:]
	}
	return bytes.TrimLeft(rest, "{, \t\r\n")
}

// Same reports whether two objects have the same content: the same bytes, or in JSON the same
// members in any order. Two members are the same if their values have the same bytes. In JSON, Same
// ignores apiVersion and kind.
func Same(enc Encoding, a, b []byte) bool {
	if enc != JSON || bytes.Equal(a, b) {
		return bytes.Equal(a, b)
	}
	ours, ok := contentOf(a)
	theirs, okToo := contentOf(b)
	return ok && okToo && maps.EqualFunc(ours, theirs, bytes.Equal)
}

// contentOf returns the members of an object except apiVersion and kind. ok is false if the object
// is malformed or if a member occurs twice.
func contentOf(object []byte) (content map[string][]byte, ok bool) {
	content = make(map[string][]byte)
	w := membersOf(object)
	for w.next() {
		switch key := string(unescape(nil, w.name)); {
		case key == "kind" || key == "apiVersion":
		case content[key] != nil:
			return nil, false
		default:
			content[key] = w.value.of(object)
		}
	}
	return content, !w.failed()
}
