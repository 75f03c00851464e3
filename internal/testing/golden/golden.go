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
	if string(want) != got {
		line, want, got := firstDifference(string(want), got)
		t.Errorf("%s (go test -rewrite writes it), line %d:\ngot  %q\nwant %q", path, line, got, want)
	}
}

// firstDifference returns the first lines that differ in two texts, and their number, from 1 on.
func firstDifference(want, got string) (line int, wantLine, gotLine string) {
	for line = 1; ; line++ {
		wantLine, want = cutLine(want)
		gotLine, got = cutLine(got)
		if wantLine != gotLine || wantLine == "" {
			return line, wantLine, gotLine
		}
	}
}

// cutLine returns the first line of a text with its end, and the rest.
func cutLine(text string) (line, rest string) {
	end := strings.IndexByte(text, '\n') + 1
	if end == 0 {
		end = len(text)
	}
	return text[:end], text[end:]
}
