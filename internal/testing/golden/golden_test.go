package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) { r.said += fmt.Sprintf(format, args...) }

// TestFile checks that File reports the first line that differs, and that with -rewrite it writes
// the file.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "golden")
	check.NoError(t, os.WriteFile(path, []byte("a\nb\nc\n"), 0o644))
	for _, tt := range []struct {
		got       string
		line      int
		gets, has string // the first line that differs, in got and in the file
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

// TestPage checks that a page contains the paragraphs, examples, flags and subcommands of a command
// as Markdown.
func TestPage(t *testing.T) {
	got := Page{
		Command: "weir see", Short: "Sees", Use: "weir see", Long: "One\nand two.\n\n  block\n\nThree.", Example: "\nweir see -a\n",
		FlagsOf: "weir", Verbs: []Page{{Command: "weir see more", Short: "Sees more"}},
	}.markdown()
	check.Equal(t, got, `<!-- Made of the command's help by TestPages; do not edit. -->

# weir see

Sees.

`+"```\nweir see\nweir see [command]\n```\n\nOne and two.\n\n```\n  block\n```\n\nThree.\n\n## Examples\n\n```\nweir see -a\n```\n"+`
It has the flags of [weir](weir.md), too.

## Commands

- [weir see more](weir-see-more.md): Sees more
`, "the page")
}
