// Package golden compares the output of tests with files, and the help of commands with their pages
// in docs/commands. With the flag -rewrite, tests write these files and pages instead.
package golden

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files")

// Check does what File does, for the file testdata/name of the package under test.
func Check(t testing.TB, name, got string) {
	t.Helper()
	File(t, filepath.Join("testdata", name), got)
}

// File reports an error if the file at path does not contain exactly got. With -rewrite it writes
// got to the file first.
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
	n := 0 // the index of the first line that differs
	for n < min(len(wanted), len(lines))-1 && wanted[n] == lines[n] {
		n++
	}
	t.Errorf("%s (go test -rewrite writes it), line %d:\ngot  %q\nwant %q", path, n+1, lines[n], wanted[n])
}

// Page is the help of a command. Its fields are like those of cobra.Command, but this module does
// not require cobra. Cobra's own generator of pages would also require a renderer of man pages.
type Page struct {
	Command string // as users type it, such as "weir bench"
	Short   string
	Use     string
	Long    string // paragraphs, and blocks in which each line starts with a space
	Example string
	Flags   string
	FlagsOf string // another command whose flags this command has too, or ""
	Verbs   []Page // the subcommands; of each, only Command and Short are used
}

// PageName returns the file name of a command's page.
func PageName(command string) string { return strings.ReplaceAll(command, " ", "-") + ".md" }

// CheckPage reports an error if the command's page in folder differs from p. With -rewrite it
// writes the page first.
func CheckPage(t testing.TB, folder string, p Page) {
	t.Helper()
	File(t, filepath.Join(folder, PageName(p.Command)), p.markdown())
}

func (p Page) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "<!-- Made of the command's help by TestPages; do not edit. -->\n\n# %s\n\n%s.\n\n", p.Command, p.Short)
	use := p.Use
	if len(p.Verbs) > 0 {
		use += "\n" + p.Command + " [command]"
	}
	fmt.Fprintf(&b, "```\n%s\n```\n", use)
	if p.Long != "" {
		b.WriteString("\n" + reflow(p.Long))
	}
	section := func(title, text string) {
		if text = strings.Trim(text, "\n"); text != "" {
			fmt.Fprintf(&b, "\n## %s\n\n```\n%s\n```\n", title, text)
		}
	}
	section("Examples", p.Example)
	section("Flags", p.Flags)
	if p.FlagsOf != "" {
		fmt.Fprintf(&b, "\nIt has the flags of [%s](%s), too.\n", p.FlagsOf, PageName(p.FlagsOf))
	}
	if len(p.Verbs) > 0 {
		fmt.Fprint(&b, "\n## Commands\n\n")
		for _, v := range p.Verbs {
			b.WriteString(fill(fmt.Sprintf("- [%s](%s): %s", v.Command, PageName(v.Command), v.Short), "  "))
		}
	}
	return b.String()
}

// reflow breaks the paragraphs of text into lines of at most 100 columns. It puts blocks whose
// lines start with spaces into code fences.
func reflow(text string) string {
	var paragraphs []string
	for paragraph := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		if strings.HasPrefix(paragraph, " ") {
			paragraphs = append(paragraphs, "```\n"+strings.TrimRight(paragraph, "\n")+"\n```\n")
		} else {
			paragraphs = append(paragraphs, fill(paragraph, ""))
		}
	}
	return strings.Join(paragraphs, "\n")
}

// fill breaks text into lines of at most 100 columns. Each line except the first starts with
// indent.
func fill(text, indent string) string {
	const columns = 100
	var b strings.Builder
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len([]rune(line+" "+word)) > columns:
			b.WriteString(line + "\n")
			line = indent + word
		default:
			line += " " + word
		}
	}
	return b.String() + line + "\n"
}
