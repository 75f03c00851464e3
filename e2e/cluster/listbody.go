package cluster

import (
	"bytes"
	"encoding/json"
	"regexp"
)

var (
	version = regexp.MustCompile(`("resourceVersion": ?)"\d+"`)
	token   = regexp.MustCompile(`("continue": ?)"[^"]+"`)
)

// ComparableList returns the JSON of a list with fixed texts in place of its resourceVersion and
// its continue token, which differ between servers. It does not change an empty token, or JSON that
// is not a list.
func ComparableList(body []byte) []byte {
	var list struct{ Metadata, Items json.RawMessage }
	if json.Unmarshal(body, &list) != nil || list.Items == nil {
		return body
	}
	at := bytes.Index(body, list.Metadata)
	plain := token.ReplaceAll(version.ReplaceAll(list.Metadata, []byte(`$1"R"`)), []byte(`$1"C"`))
	return bytes.Join([][]byte{body[:at], plain, body[at+len(list.Metadata):]}, nil)
}
