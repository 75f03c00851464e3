package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/core/columns"
	"github.com/weirproject/weir/internal/testing/check"
)

func TestTable(t *testing.T) {
	for _, tc := range []struct {
		name  string
		limit int
		fit   []string
		rows  [][]string
		want  string
	}{
		{
			name: "columns widen and stay wide",
			rows: [][]string{{"EVENT", "NAME", "NODE"}, {"ADDED", "web-0", "n1"}, {"MODIFIED", "a-long-name", "n2"}, {"ADDED", "b", ""}},
			want: `
EVENT  NAME  NODE
ADDED  web-0  n1
MODIFIED  a-long-name  n2
ADDED     b
`,
		},
		{
			name: "a very long cell does not widen the column more than maxWidth",
			rows: [][]string{{"NAME", "NODE"}, {strings.Repeat("x", 3*maxWidth), "n1"}, {"b", "n2"}},
			want: "\nNAME  NODE\n" + strings.Repeat("x", 3*maxWidth) + "  n1\nb" + strings.Repeat(" ", maxWidth+1) + "n2\n",
		},
		{
			name: "the widest cells are announced",
			fit:  []string{"MODIFIED", "a-long-name"},
			rows: [][]string{{"EVENT", "NAME", "NODE"}, {"ADDED", "web-0", "n1"}, {"MODIFIED", "a-long-name", "n2"}},
			want: `
EVENT     NAME         NODE
ADDED     web-0        n1
MODIFIED  a-long-name  n2
`,
		},
		{
			name: "what moves a terminal's cursor is not passed on",
			fit:  []string{"\x1b\x1b\x1b\x1b"},
			rows: [][]string{{"a\x1b[2J", "b\tc\n", "\u202ed\u009b1m"}, {"e", "f", "g"}},
			want: `
a?[2J  b?c?  ?d?1m
e      f     g
`,
		},
		{
			name:  "lines are cut to the limit",
			limit: 12,
			rows:  [][]string{{"ADDED", "exact"}, {"ADDED", "web-00000"}, {"ÄDDED", "wéb-00000"}},
			want: `
ADDED  exact
ADDED  web-…
ÄDDED  wéb-…
`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b strings.Builder
			p := &table{out: &b, limit: tc.limit}
			p.fit(tc.fit...)
			for _, row := range tc.rows {
				check.NoError(t, p.row(row...))
			}
			check.Equal(t, "\n"+b.String(), tc.want)
		})
	}
}

// TestNarrow checks which columns a terminal of some width shows.
func TestNarrow(t *testing.T) {
	header := strings.Fields("TIME EVENT NAMESPACE NAME READY STATUS RESTARTS AGE NODE")
	row := []string{"15:04:05.000", "MODIFIED", "team-00000", "account-api-0000-zt749k5xj7-2cwts", "1/2", "CrashLoopBackOff", "12 (5m3s ago)", "67d", "node-000007"}
	for _, tc := range []struct {
		limit int
		want  string
	}{
		{0, `
TIME          EVENT     NAMESPACE   NAME                               READY  STATUS            RESTARTS       AGE  NODE
15:04:05.000  MODIFIED  team-00000  account-api-0000-zt749k5xj7-2cwts  1/2    CrashLoopBackOff  12 (5m3s ago)  67d  node-000007
`},
		{120, `
TIME          EVENT     NAMESPACE   NAME                               READY  STATUS            RESTARTS   AGE  NODE
15:04:05.000  MODIFIED  team-00000  account-api-0000-zt749k5xj7-2cwts  1/2    CrashLoopBackOff  12 (5m3s…  67d  node-00…
`},
		{110, `
TIME      EVENT     NAMESPACE   NAME                          READY  STATUS            RESTARTS  AGE  NODE
15:04:05  MODIFIED  team-00000  account-api-00…49k5xj7-2cwts  1/2    CrashLoopBackOff  12 (5m3…  67d  node-00…
`},
		{100, `
TIME      EVENT     NAMESPACE   NAME                          READY  STATUS            RESTARTS  AGE
15:04:05  MODIFIED  team-00000  account-api-00…49k5xj7-2cwts  1/2    CrashLoopBackOff  12 (5m3…  67d
`},
		{80, `
TIME      EVENT     NAMESPACE   NAME           READY  STATUS            RESTARTS
15:04:05  MODIFIED  team-00000  accoun…-2cwts  1/2    CrashLoopBackOff  12 (5m3…
`},
		{70, `
TIME      EVENT     NAMESPACE   NAME           READY  STATUS
15:04:05  MODIFIED  team-00000  accoun…-2cwts  1/2    CrashLoopBackOff
`},
		{60, `
TIME      EVENT     NAMESPACE   NAME          READY  STATUS…
15:04:05  MODIFIED  team-00000  accoun…2cwts  1/2    CrashL…
`},
	} {
		var b strings.Builder
		p := &table{out: &b, header: header, limit: tc.limit}
		p.fit(row...)
		check.NoError(t, p.row(header...))
		check.NoError(t, p.row(row...))
		check.Equal(t, "\n"+b.String(), tc.want, "%d", tc.limit)
	}
}

// TestChanged checks that a row shows the old value of a changed cell if the line has room for it,
// and colours the cell.
func TestChanged(t *testing.T) {
	header := []string{"NAME", "READY", "STATUS", "AGE"}
	for _, tc := range []struct {
		limit  int
		colour bool
		want   string
	}{
		{0, false, `
NAME   READY  STATUS   AGE
web-0  1/1    Running  5d
web-0  1/1 → 0/1  Running → Failed  5d
web-0  0/1        Failed            5d
web-0  0/1        Failed            5d
`},
		{50, true, `
NAME   READY  STATUS   AGE
web-0  1/1    Running  5d
web-0  {1/1 → 0/1}  {Running → Failed}  5d
web-0  0/1        Failed            5d
web-0  0/1        {Failed}            5d
`},
		{30, true, `
NAME   READY  STATUS   AGE
web-0  1/1    Running  5d
web-0  {1/1 → 0/1}  {Failed}   5d
web-0  0/1        Failed   5d
web-0  0/1        {Failed}   5d
`},
		{16, true, `
NAME   READY  S…
web-0  1/1    R…
web-0  {0/1}    {F…}
web-0  0/1    F…
web-0  0/1    {F…}
`},
	} {
		var b strings.Builder
		p := &table{out: &b, header: header, limit: tc.limit, colour: tc.colour}
		p.fit("web-0", "1/1", "Running", "5d")
		running, failed := []string{"web-0", "1/1", "Running", "5d"}, []string{"web-0", "0/1", "Failed", "5d"}
		check.NoError(t, p.row(header...))
		check.NoError(t, p.row(running...))
		check.NoError(t, p.changed(failed, running))
		check.NoError(t, p.changed(failed, failed))
		check.NoError(t, p.changed(failed, []string{"web-0", "0/1", "", "5d"}))
		got := strings.NewReplacer(colours['~'], "{", plain, "}").Replace(b.String())
		check.Equal(t, "\n"+got, tc.want, "%d", tc.limit)
	}
}

// TestResize checks that a sheet follows the width of its terminal, and then repeats the header.
func TestResize(t *testing.T) {
	var b strings.Builder
	width := 30
	w := &watch{watchFlags: &watchFlags{}, resource: podResource, columns: columns.Of(podResource.Kind)}
	s := newSheet(&b, w)
	s.size = func() (int, int) { return width, 24 }
	cells := s.cells("shop", "web-0", []string{"1/1", "Running", "0", "5d"})
	for _, width = range []int{60, 60, 30} {
		check.NoError(t, s.row(s.objects, cells, nil, nil))
	}
	check.Equal(t, "\n"+b.String(), `
NAMESPACE  NAME   READY  STATUS   RESTARTS  AGE
shop       web-0  1/1    Running  0         5d
shop       web-0  1/1    Running  0         5d
NAMESPACE  NAME   READY  STAT…
shop       web-0  1/1    Runn…
`)
}

var cog = map[string]any{
	"metadata": map[string]any{"name": "cog", "labels": map[string]any{"part": "cog", "a.b/c": "d"}},
	"spec":     map[string]any{"teeth": int64(12), "of": []any{map[string]any{"n": "x"}, map[string]any{"n": "y"}}, "note": "one\ntwo"},
}

// TestFormat checks that -o jsonpath and -o custom-columns print an object like kubectl prints it.
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
		"jsonpath":                   "needs a value, such as -o jsonpath={.metadata.name}",
		"custom-columns=":            "needs a value, such as -o custom-columns=NAME:",
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

// maxSize is the maximum size of weir, built like go install builds it, in bytes.
const maxSize = 34e6

// TestSize checks that weir does not link much more than it needs. For example, html/template would
// add 8 MB, because the linker then keeps all exported methods.
func TestSize(t *testing.T) {
	program := filepath.Join(t.TempDir(), "weir")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags=", "-o", program, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(program)
	check.NoError(t, err)
	if info.Size() > maxSize {
		t.Errorf("weir has %d bytes, of %d at most", info.Size(), int(maxSize))
	}
}
