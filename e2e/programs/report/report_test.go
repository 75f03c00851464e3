package report

import (
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

func TestServe(t *testing.T) {
	var out strings.Builder
	known := Known(func() map[string]any { return map[string]any{"b": 2, "a": []string{"x"}} })
	check.NoError(t, serve(strings.NewReader(AskCount+"\n"+AskAll+"\n"+AskDropIn+"\n"), &out, known))
	want := `2
{"a":["x"],"b":2}
{"informers":0,"captured":0}
`
	check.Equal(t, out.String(), want)
}
