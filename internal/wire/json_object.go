package wire

import (
	"bytes"
	"fmt"
	"io"
)

// appendJSONObject appends object, with kind and apiVersion in front if it lacks them.
func appendJSONObject(dst []byte, tm TypeMeta, object []byte) []byte {
	hasKind, hasVersion := ownTypeMeta(object)
	brace := bytes.IndexByte(object, '{')
	if brace < 0 || (hasKind || tm.Kind == "") && (hasVersion || tm.APIVersion == "") {
		return append(dst, object...)
	}
	var own []byte
	if !hasKind && tm.Kind != "" {
		own = appendString(append(own, `"kind":`...), tm.Kind)
	}
	if !hasVersion && tm.APIVersion != "" {
		own = appendString(append(comma(own, 0), `"apiVersion":`...), tm.APIVersion)
	}
	return insertFirst(dst, object, own)
}

func ownTypeMeta(object []byte) (kind, apiVersion bool) {
	members := membersOf(object)
	for !kind || !apiVersion {
		name, _, ok := members.next()
		if !ok {
			break
		}
		switch {
		case nameIs(name, "kind"):
			kind = true
		case nameIs(name, "apiVersion"):
			apiVersion = true
		}
	}
	return kind, apiVersion
}

// cutJSONObject checks that body is one JSON object and returns it without the whitespace around
// it.
func cutJSONObject(body []byte) (TypeMeta, []byte, error) {
	var tm TypeMeta
	from := skipSpace(body, 0)
	if from >= len(body) || body[from] != '{' {
		return tm, nil, malformed(int64(from), "object: is not a JSON object")
	}
	var s jsonScanner
	s.start(0, objectNames)
	switch r := s.scan(body[from:]); r {
	case scanDone:
	case scanMore:
		return tm, nil, &SyntaxError{Offset: int64(len(body)), What: "object", Err: io.ErrUnexpectedEOF}
	default:
		return tm, nil, malformed(int64(from+s.at), "object: "+scanProblems[r])
	}
	object := body[from : from+s.at : from+s.at]
	if end := skipSpace(body, from+s.at); end < len(body) {
		return tm, nil, malformedf(int64(end), "object: %q behind its end", body[end])
	}
	err := tm.setJSON(s.spans[noteAPIVersion].of(object), s.spans[noteKind].of(object))
	if err != nil {
		return tm, nil, malformed(int64(from), "object: "+err.Error())
	}
	return tm, object, nil
}

// setJSON sets t from the JSON values of both members, either of which may be missing. It allocates
// only if a field changes or has escapes.
func (t *TypeMeta) setJSON(apiVersion, kind []byte) error {
	var texts [2][]byte
	for i, v := range [2][]byte{apiVersion, kind} {
		switch {
		case len(v) == 0 || isNull(v):
		case isString(v):
			texts[i], _ = stringText(nil, v)
		default:
			return fmt.Errorf("%s is not a string", objectNames[noteAPIVersion-i])
		}
	}
	t.set(texts[0], texts[1])
	return nil
}

// appendJSONVersion replaces or adds metadata.resourceVersion.
func appendJSONVersion(dst, object []byte, rv string) ([]byte, error) {
	was := len(dst)
	members := membersOf(object)
	at, found := members.find("metadata")
	switch {
	case members.bad:
		return dst, malformed(int64(members.i), "object: not JSON")
	case !found:
		meta, _ := appendJSONMetaVersion([]byte(`"metadata":`), []byte("{}"), rv)
		return insertFirst(dst, object, meta), nil
	}
	dst = append(dst, object[:at.from]...)
	dst, ok := appendJSONMetaVersion(dst, at.of(object), rv)
	if !ok {
		return dst[:was], malformed(int64(at.from), "metadata: not an object with one resourceVersion")
	}
	return append(dst, object[at.to:]...), nil
}

func appendJSONMetaVersion(dst, meta []byte, rv string) ([]byte, bool) {
	if isNull(meta) {
		meta = []byte("{}")
	}
	members := membersOf(meta)
	at, found := members.find("resourceVersion")
	if _, twice := members.find("resourceVersion"); twice || members.bad {
		return dst, false
	}
	if found {
		dst = appendString(append(dst, meta[:at.from]...), rv)
		return append(dst, meta[at.to:]...), true
	}
	return insertFirst(dst, meta, appendString([]byte(`"resourceVersion":`), rv)), true
}

// insertFirst appends object with member in front of its other members.
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
