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

// ComparableList makes the JSON of a list comparable between servers. It replaces the list's
// resourceVersion and a non-empty continue token by fixed texts. It returns other JSON unchanged.
func ComparableList(body []byte) []byte {
	var list struct{ Metadata, Items json.RawMessage }
	if json.Unmarshal(body, &list) != nil || list.Items == nil {
		return body
	}
	at := bytes.Index(body, list.Metadata)
	plain := token.ReplaceAll(version.ReplaceAll(list.Metadata, []byte(`$1"R"`)), []byte(`$1"C"`))
	return bytes.Join([][]byte{body[:at], plain, body[at+len(list.Metadata):]}, nil)
}
