package report

import (
	"strings"
	"testing"
)

func TestServe(t *testing.T) {
	var out strings.Builder
	known := func() map[string]any { return map[string]any{"b": 2, "a": []string{"x"}} }
	if err := serve(strings.NewReader(AskCount+"\n"+AskAll+"\n"+AskState+"\n"), &out, known); err != nil {
		t.Fatal(err)
	}
	want := `{"count":2}
{"a":["x"],"b":2}
{"count":2,"sum":"e32a6bf3d33f1321"}
`
	if got := out.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
