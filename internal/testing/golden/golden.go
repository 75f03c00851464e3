// Package golden compares the output of tests with files, and the help of commands with their pages
// in docs/commands.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files")

// Check compares got with the file testdata/name of the package under test, see File.
func Check(t testing.TB, name, got string) {
	t.Helper()
	File(t, filepath.Join("testdata", name), got)
}

// File compares got with a file; with -rewrite it writes it.
func File(t testing.TB, path, got string) {
	t.Helper()
	if *rewrite {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) == got {
		return
	}
	wanted, lines := strings.SplitAfter(string(want), "\n"), strings.SplitAfter(got, "\n")
	n := 0 // the first line that differs
	for n < min(len(wanted), len(lines))-1 && wanted[n] == lines[n] {
		n++
	}
	t.Errorf("%s (go test -rewrite writes it), line %d:\ngot  %q\nwant %q", path, n+1, lines[n], wanted[n])
}
