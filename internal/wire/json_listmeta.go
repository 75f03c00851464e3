package wire

import "strconv"

// listMetaNames are the members of a list's metadata that are read.
var listMetaNames = []string{"resourceVersion", "continue", "remainingItemCount", "shardInfo"}

// readJSON sets m from the spans that the scan of a list's metadata noted.
func (m *ListMeta) readJSON(v []byte, spans *[maxNames]span, offset int64) error {
	if string(v) == "null" {
		return nil
	}
	if v[0] != '{' {
		return malformed(offset, "list metadata: is not an object")
	}
	for i, to := range []*string{&m.ResourceVersion, &m.Continue} {
		if spans[i] == (span{}) {
			continue
		}
		text, ok := stringOrNull(spans[i].of(v))
		if !ok {
			return malformed(offset+int64(spans[i].from), "list metadata: "+listMetaNames[i]+" is not a string")
		}
		*to = text
	}
	if n := spans[2].of(v); len(n) > 0 && string(n) != "null" {
		count, err := strconv.ParseInt(string(n), 10, 64)
		if err != nil {
			return malformed(offset+int64(spans[2].from), "list metadata: remainingItemCount is not a number")
		}
		m.RemainingItemCount = count
	}
	m.ShardSelector = shardInfo(spans[3].of(v))
	return nil
}

// shardInfo returns the selector in a list's shardInfo, or "". A malformed one gives no error,
// because nothing depends on it.
func shardInfo(v []byte) (selector string) {
	if len(v) == 0 || v[0] != '{' {
		return ""
	}
	members := membersOf(v)
	for at, ok := members.find("selector"); ok; at, ok = members.find("selector") {
		selector, _ = stringOrNull(at.of(v))
	}
	return selector
}

// stringOrNull returns the text of a JSON string, or "" for null. It returns false for any other
// value.
func stringOrNull(v []byte) (string, bool) {
	switch {
	case v[0] == '"':
		return string(unescape(nil, v[1:len(v)-1])), true
	case v[0] == 'n':
		return "", true
	}
	return "", false
}

// appendJSONStart appends what stands before the items of a list.
func (l *ListWriter) appendJSONStart(dst []byte) []byte {
	if l.Form == UnstructuredList {
		dst = append(dst, `{"apiVersion":`...)
		dst = appendString(dst, l.typeMeta.APIVersion)
		return append(dst, `,"items":`...)
	}
	dst = append(dst, `{"kind":`...)
	dst = appendString(dst, l.typeMeta.Kind)
	dst = append(dst, `,"apiVersion":`...)
	dst = appendString(dst, l.typeMeta.APIVersion)
	dst = append(dst, `,"metadata":{`...)
	was := len(dst)
	if l.meta.ResourceVersion != "" {
		dst = append(dst, `"resourceVersion":`...)
		dst = appendString(dst, l.meta.ResourceVersion)
	}
	if l.meta.Continue != "" {
		dst = append(comma(dst, was), `"continue":`...)
		dst = appendString(dst, l.meta.Continue)
	}
	dst = l.meta.appendJSONCount(dst, was)
	dst = l.meta.appendJSONShard(dst, was)
	return append(dst, `},"items":`...)
}

// appendJSONEnd appends the end of the items, and what stands behind them.
func (l *ListWriter) appendJSONEnd(dst []byte) []byte {
	switch {
	case l.items:
		dst = append(dst, ']')
	case l.Form == MetadataList:
		dst = append(dst, "null"...)
	default:
		dst = append(dst, "[]"...)
	}
	if l.Form != UnstructuredList {
		return append(dst, "}\n"...)
	}
	dst = append(dst, `,"kind":`...)
	dst = appendString(dst, l.typeMeta.Kind)
	dst = append(dst, `,"metadata":{`...)
	was := len(dst)
	dst = append(dst, `"continue":`...)
	dst = appendString(dst, l.meta.Continue)
	dst = l.meta.appendJSONCount(dst, was)
	if l.meta.ResourceVersion != "" {
		dst = append(dst, `,"resourceVersion":`...)
		dst = appendString(dst, l.meta.ResourceVersion)
	}
	dst = l.meta.appendJSONShard(dst, was)
	return append(dst, "}}\n"...)
}

// appendJSONCount appends remainingItemCount, if there is one. The metadata begins at was.
func (m *ListMeta) appendJSONCount(dst []byte, was int) []byte {
	if m.RemainingItemCount <= 0 {
		return dst
	}
	dst = append(comma(dst, was), `"remainingItemCount":`...)
	return strconv.AppendInt(dst, m.RemainingItemCount, 10)
}

// appendJSONShard appends shardInfo, if there is one. The metadata begins at was.
func (m *ListMeta) appendJSONShard(dst []byte, was int) []byte {
	if m.ShardSelector == "" {
		return dst
	}
	dst = append(comma(dst, was), `"shardInfo":{"selector":`...)
	return append(appendString(dst, m.ShardSelector), '}')
}

// comma appends a comma if dst is longer than was.
func comma(dst []byte, was int) []byte {
	if len(dst) > was {
		dst = append(dst, ',')
	}
	return dst
}
