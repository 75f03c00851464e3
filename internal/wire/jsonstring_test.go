package wire

import (
	"encoding/json"
	"testing"
)

// A string has the bytes that encoding/json gives it.
func TestAppendString(t *testing.T) {
	text := "<a href=\"&\">\\ \u2028\u2029 \u00e9\U0001f600\x7f"
	for r := range rune(' ') {
		text += string(r)
	}
	for _, s := range []string{text, "", "\ufffd"} {
		want, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := appendString(nil, s); string(got) != string(want) {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
}
