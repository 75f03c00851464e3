package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// recorder records the messages of a check.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) { r.said += fmt.Sprintf(format, args...) }

// TestFile: a difference is reported with the first line that differs, and -rewrite writes the
// file.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "golden")
	check.NoError(t, os.WriteFile(path, []byte("a\nb\nc\n"), 0o644))
	for _, tt := range []struct {
		got       string
		line      int
		gets, has string // the lines that differ
	}{
		{"a\nb\nc\n", 0, "", ""},
		{"a\nx\nc\n", 2, "x\n", "b\n"},
		{"a\nb\n", 3, "", "c\n"},
		{"a\nb\nc", 3, "c", "c\n"},
		{"a\nb\nc\nd\n", 4, "d\n", ""},
	} {
		r, want := &recorder{TB: t}, ""
		if tt.line > 0 {
			want = fmt.Sprintf("%s (go test -rewrite writes it), line %d:\ngot  %q\nwant %q", path, tt.line, tt.gets, tt.has)
		}
		if File(r, path, tt.got); r.said != want {
			t.Errorf("%q: said %q, want %q", tt.got, r.said, want)
		}
	}
	*rewrite = true
	defer func() { *rewrite = false }()
	File(t, path, "d\n")
	if text, err := os.ReadFile(path); err != nil || string(text) != "d\n" {
		t.Errorf("%q, %v", text, err)
	}
}
