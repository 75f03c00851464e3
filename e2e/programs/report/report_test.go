package report

import (
	"strings"
	"testing"
)

func TestServe(t *testing.T) {
	var out strings.Builder
	known := Known(func() map[string]any { return map[string]any{"b": 2, "a": []string{"x"}} })
	if err := serve(strings.NewReader(AskCount+"\n"+AskAll+"\n"+AskDropIn+"\n"), &out, known); err != nil {
		t.Fatal(err)
	}
	want := `2
{"a":["x"],"b":2}
{"informers":0,"captured":0}
`
	if out.String() != want {
		t.Errorf("got %s, want %s", &out, want)
	}
}
