package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

var cog = map[string]any{
	"metadata": map[string]any{"name": "cog", "labels": map[string]any{"part": "cog", "a.b/c": "d"}},
	"spec":     map[string]any{"teeth": int64(12), "of": []any{map[string]any{"n": "x"}, map[string]any{"n": "y"}}, "note": "one\ntwo"},
}

// An object is printed like kubectl prints it.
func TestFormat(t *testing.T) {
	for _, tc := range []struct{ output, want string }{
		{"jsonpath={.metadata.name}", "cog\n"},
		{`jsonpath={.metadata.name}{"\n"}`, "cog\n"},
		{"jsonpath=.spec.teeth", "12\n"},
		{`jsonpath={range .spec.of[*]}{.n}{";"}{end}`, "x;y;\n"},
		{"jsonpath={.spec.nothing}", "\n"},
		{"custom-columns=NAME:.metadata.name,T:spec.teeth,O:{.spec.of[*].n},N:{spec.note}", "cog|12|x,y|one; two"},
		{`custom-columns=L:.metadata.labels.a\.b/c,NONE:.status.phase`, "d|<none>"},
	} {
		f, err := parseFormat(tc.output)
		check.NoError(t, err)
		for range 2 { // a path with a range can be evaluated only once
			if f.output == outputCustomColumns {
				cells, err := f.cells(cog)
				if got := strings.Join(cells, "|"); err != nil || got != tc.want {
					t.Errorf("%s: %q, %v", tc.output, got, err)
				}
				continue
			}
			if got, err := f.line(cog); err != nil || string(got) != tc.want {
				t.Errorf("%s: %q, %v", tc.output, got, err)
			}
		}
	}
	f, err := parseFormat("custom-columns=A:.a,B:.b")
	if err != nil || !slices.Equal(f.headers, []string{"A", "B"}) {
		t.Errorf("headers %q, %v", f.headers, err)
	}
}

func TestFormatThatIsNone(t *testing.T) {
	for output, want := range map[string]string{
		"xml":                        "the output can be json, yaml,",
		"json=x":                     "the output can be json, yaml,",
		"jsonpath":                   "say what, such as -o jsonpath={.metadata.name}",
		"custom-columns=":            "say what, such as -o custom-columns=NAME:",
		"jsonpath={.a":               "unclosed action",
		"custom-columns=NAME":        `"NAME": want HEADER:PATH`,
		"custom-columns=A:.a,":       `"": want HEADER:PATH`,
		"custom-columns=A:{.a}{.b}":  "want a path such as .metadata.name",
		"custom-columns=A:.a[?(@.b)": "unclosed array",
	} {
		if _, err := parseFormat(output); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("-o %s: %v", output, err)
		}
	}
}
