package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// fakeBench is a weir-bench that prints the ratio 0.5 for each figure. If the file "ratio" exists,
// the ratio of cpuSeconds is the one in that file. Each run adds a line to the file "measured".
// Both files are in the checkout, where fakeBench runs.
const fakeBench = `package main

import (
	"fmt"
	"os"
	"strings"
)

func main() {
	f, err := os.OpenFile("measured", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(f, strings.Join(os.Args[1:], " "))
	ratio := "0.5"
	if text, err := os.ReadFile("ratio"); err == nil {
		ratio = string(text)
	}
	fmt.Printf("[{\"name\": \"x\", \"ratio\": {\"cpuSeconds\": %s, \"syncSeconds\": 0.5}}]\n", ratio)
}
`

// checkout returns a git checkout that contains fakeBench.
func checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module fake\n\ngo 1.26\n")
	write(t, filepath.Join(dir, "measure/bench/cmd/weir-bench/main.go"), fakeBench)
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "-m", "x"}} {
		c := exec.CommandContext(t.Context(), "git", args...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	check.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	check.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

// TestRecordAndCheck checks that a baseline is recorded once and neither measured again nor
// overwritten, and that a checkout is compared with it.
func TestRecordAndCheck(t *testing.T) {
	tree := checkout(t)
	t.Chdir(t.TempDir())
	baseline := func(want int, args ...string) (stdout string) {
		t.Helper()
		var out, progress bytes.Buffer
		args = append(args, "-tree", tree, "-dir", "base", "-pods", "9", "-only", "typed-similar-sync,typed-similar-relist")
		if got := run(t.Context(), args, &out, &progress); got != want {
			t.Fatalf("%v: exit code %d, want %d\n%s%s", args, got, want, out.String(), progress.String())
		}
		return out.String()
	}
	measured := func() int {
		text, _ := os.ReadFile(filepath.Join(tree, "measured"))
		return strings.Count(string(text), "\n")
	}
	baseline(0)
	baseline(0) // both rows are recorded already
	check.Equal(t, measured(), 2, "recording twice measures rows")
	if text, err := os.ReadFile("base/table.md"); err != nil || !strings.Contains(string(text), "≤ 0.625 | 0.500 | 0.500 | kept") {
		t.Errorf("table.md: %v\n%s", err, text)
	}
	baseline(1, "-runs", "3") // other flags do not overwrite the baseline
	write(t, filepath.Join(tree, "measure/bench/cmd/weir-bench/other.go"), "package main\n\nfunc init() { println() }\n")
	baseline(1) // other code does not overwrite it either

	write(t, filepath.Join(tree, "ratio"), "0.62")
	baseline(0, "-check")
	if got := measured(); got != 4 {
		t.Errorf("a check measures %d rows, want 2", got-2)
	}
	write(t, filepath.Join(tree, "measure/bench/cmd/weir-bench/other.go"), "package main\n\nfunc init() { println(1) }\n")
	write(t, filepath.Join(tree, "ratio"), "0.63")
	if out := baseline(1, "-check"); !strings.Contains(out, "≤ 0.625 | 0.500 | 0.630 | BROKEN") || !strings.Contains(out, "≤ 0.625 | 0.500 | 0.500 | kept") {
		t.Errorf("a check of a worse figure prints\n%s", out)
	}
}

// TestFailedRow checks that a row that fails gives an error and that the other rows are measured.
func TestFailedRow(t *testing.T) {
	tree := checkout(t)
	t.Chdir(t.TempDir())
	var out, progress bytes.Buffer
	check.Equal(t, run(t.Context(), []string{"-tree", tree, "-dir", "base", "-only", "typed-similar-watch,typed-similar-relist"}, &out, &progress), 1, "exit code")
	if !strings.Contains(progress.String(), "typed-similar-watch: the results do not have eventsPerSecond") {
		t.Errorf("progress:\n%s", progress.String())
	}
	if _, err := os.Stat("base/typed-similar-relist.json"); err != nil {
		t.Error(err)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tree := checkout(t)
	t.Chdir(t.TempDir())
	var out, progress bytes.Buffer
	if code := run(ctx, []string{"-tree", tree, "-dir", "base"}, &out, &progress); code != 1 || out.Len() > 0 {
		t.Errorf("exit code %d\n%s", code, out.String())
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-only", "none"}, {"-without", "none"}, {"-pods", "0"}, {"more"}, {"-x"}} {
		check.Equal(t, run(t.Context(), args, new(bytes.Buffer), new(bytes.Buffer)), 2, "%v: exit code", args)
	}
}

func TestBound(t *testing.T) {
	for _, test := range []struct {
		figure   figure
		recorded bool
		bound    float64
		ok       bool
	}{
		{figure{limit: 0.5}, true, 0.5, true},
		{figure{limit: 0.5}, false, 0.5, true},
		{figure{kind: memory}, true, 1.15 * 2, true},
		{figure{kind: effort}, true, 1.25 * 2, true},
		{figure{kind: rate}, true, 2 / 1.2, true},
		{figure{kind: rate}, false, 0, false},
	} {
		if bound, ok := test.figure.bound(2, test.recorded); bound != test.bound || ok != test.ok {
			t.Errorf("%+v, recorded %v: %v, %v", test.figure, test.recorded, bound, ok)
		}
	}
	if f := (figure{kind: rate}); !f.keeps(2, 1) || f.keeps(1, 2) {
		t.Error("more events a second are worse")
	}
	if f := (figure{kind: memory}); f.keeps(2, 1) || !f.keeps(1, 2) {
		t.Error("more memory is better")
	}
}

func TestParseProgram(t *testing.T) {
	out := "=== RUN TestPrograms\n    x_test.go:1: as it is, changed\n" +
		"                         statements imports+go.mod   peak RSS, MB              CPU, s                    done after, s\n" +
		"        kube-scheduler               6            3+2     2000   1000     0.50     20.0   15.0     0.75     10.0    9.0\n"
	got, line, err := parseProgram("kube-scheduler", []byte(out))
	if diff := cmp.Diff(figures.Values{programPeak: 0.5, programCPU: 0.75}, got); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
	check.Equal(t, line, "kube-scheduler 6 3+2 2000 1000 0.50 20.0 15.0 0.75 10.0 9.0", "line")
	if _, _, err := parseProgram("cert-manager", []byte(out)); err == nil {
		t.Error("a program without a line is no error")
	}
}
