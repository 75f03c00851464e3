package weir_test

import (
	"go/scanner"
	"go/token"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestLengths checks that no Go file has more than 400 lines. The limit is 800 lines if most
// functions of the file are methods of one type. Comments must end at column 100. Preformatted text
// and the output of examples may be longer.
func TestLengths(t *testing.T) {
	preformatted := regexp.MustCompile(`^\t*//(\t|   |go:)`)
	comment := regexp.MustCompile(`^\t*//`)
	for file, text := range repository(t, `\.go$`) {
		lines, output := strings.Split(strings.TrimSuffix(text, "\n"), "\n"), false
		if n := len(lines); n > 800 || n > 400 && !hasOneType(text) {
			t.Errorf("%s has %d lines", file, n)
		}
		trailing := trailingComments([]byte(text))
		for i, line := range lines {
			n, is := utf8.RuneCountInString(line), comment.MatchString(line)
			output = is && (output || strings.HasSuffix(line, "utput:"))
			switch {
			case n <= 100:
			case trailing[i+1]:
				t.Errorf("%s:%d: a line of %d columns with a comment behind its code", file, i+1, n)
			case is && !output && !preformatted.MatchString(line):
				t.Errorf("%s:%d: a comment of %d columns", file, i+1, n)
			}
		}
	}
}

// receiver matches the start of a function, and captures the type of a method's receiver.
var receiver = regexp.MustCompile(`(?m)^func (?:\(\w+ \*?(\w+)[^)]*\) )?\w+`)

// hasOneType reports whether at least two thirds of a file's functions are methods of the same
// type.
func hasOneType(text string) bool {
	methods, all := map[string]int{}, 0
	for _, m := range receiver.FindAllStringSubmatch(text, -1) {
		all++
		if m[1] != "" {
			methods[m[1]]++
		}
	}
	return len(methods) > 0 && 3*slices.Max(slices.Collect(maps.Values(methods))) >= 2*all
}

// trailingComments returns the line numbers of a Go file on which a comment follows code.
func trailingComments(text []byte) map[int]bool {
	file := token.NewFileSet().AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	lines, code := map[int]bool{}, 0 // code is the number of the last line that has code
	for {
		switch pos, tok, literal := s.Scan(); {
		case tok == token.EOF:
			return lines
		case tok == token.COMMENT:
			if line := file.Line(pos); line == code {
				lines[line] = true
			}
		case tok != token.SEMICOLON || literal == ";": // otherwise the scanner inserted the semicolon
			code = file.Line(pos) + strings.Count(literal, "\n")
		}
	}
}

// TestProseLengths checks that prose in documents, and comments in files that are neither Go nor
// documents, end at column 100. Tables and code in documents may be longer.
func TestProseLengths(t *testing.T) {
	comment := regexp.MustCompile(`(^|\s)(#|//) ([^i]|i[^n])`) // the go command writes "// indirect"
	for file, text := range repository(t, `\.(md|ya?ml|mod|work|css|js)$|(^|/)(Makefile|changes)$|^(scripts|\.ci)/`) {
		code := false
		for i, line := range strings.Split(text, "\n") {
			is := comment.MatchString(line)
			if strings.HasSuffix(file, ".md") {
				fence := strings.HasPrefix(strings.TrimSpace(line), "```")
				code = code != fence
				is = !code && !fence && !strings.HasPrefix(line, "|")
			}
			if n := utf8.RuneCountInString(line); is && n > 100 {
				t.Errorf("%s:%d: prose of %d columns", file, i+1, n)
			}
		}
	}
}

// TestDocumentLengths checks that the README has at most 70 lines and one picture, that no page in
// docs has more than 300 lines, and that docs/README.md links to each page or to the index of its
// folder.
func TestDocumentLengths(t *testing.T) {
	picture := regexp.MustCompile(`!\[|<img `)
	readme, index := textOf(t, "README.md"), textOf(t, "docs/README.md")
	if n, pictures := strings.Count(readme, "\n"), len(picture.FindAllString(readme, -1)); n > 70 || pictures != 1 {
		t.Errorf("README.md has %d lines and %d pictures", n, pictures)
	}
	for file, text := range repository(t, `^docs/.*\.md$`) {
		if n := strings.Count(text, "\n"); n > 300 {
			t.Errorf("%s has %d lines", file, n)
		}
		page := strings.TrimPrefix(file, "docs/")
		switch path.Dir(page) {
		case "commands":
			page = "commands/weir.md"
		case "incidents":
			page = "incidents/README.md"
		}
		if page != "README.md" && strings.Count(index, "]("+page+")") != 1 {
			t.Errorf("docs/README.md does not have one link to %s", page)
		}
	}
}

// unclearPhrases maps phrases that hide the actor of a sentence, or are not plain English, to a
// replacement.
var unclearPhrases = map[string]string{
	"nobody":           "no caller, no client",
	"somebody":         "a caller, a client",
	"whoever":          "the caller, the client",
	"is told":          "receives, is notified of",
	"are told":         "receive, are notified of",
	"what is held":     "the stored objects, the cached objects",
	"lets go of":       "releases, evicts, drops",
	"anew":             "again",
	"so many":          "N, up to N",
	"besides":          "also, in addition, except",
	"in its own words": "with its own message",
}

// TestProsePhrases checks that no file and no name of a test contains an unclear phrase.
func TestProsePhrases(t *testing.T) {
	unclear := phrasePattern(slices.Collect(maps.Keys(unclearPhrases)))
	all, err := readRepository()
	check.NoError(t, err)
	for file, text := range all {
		if file == "prose_test.go" || strings.Contains(file, "/fuzz/") {
			continue
		}
		for _, at := range unclear.FindAllStringIndex(text, -1) {
			t.Errorf("%s:%d: %q", file, 1+strings.Count(text[:at[0]], "\n"), text[at[0]:at[1]])
		}
	}
}

// TestPhrasePattern checks that the pattern finds a phrase as whole words, across the lines of a
// comment, and in the name of a test.
func TestPhrasePattern(t *testing.T) {
	unclear := phrasePattern([]string{"nobody", "so many"})
	for text, found := range map[string]bool{
		"Nobody reads it":                true,
		"// ends in so\n\t// many files": true,
		"# ends in so\n# many files":     true,
		"so  many":                       true,
		"func TestNobodyReads(t":         true,
		"func TestReadSoManyTimes(t":     true,
		"func TestSoManyfold(t":          false,
		"a nobodyReads, and also manys":  false,
		"// ends in so\n\n// many":       false,
	} {
		check.Equal(t, unclear.MatchString(text), found, "found in %q", text)
	}
}

// phrasePattern returns an expression that matches any of the phrases. It does not find "nobody" in
// http.NoBody.
func phrasePattern(phrases []string) *regexp.Regexp {
	var alternatives []string
	for _, phrase := range phrases {
		first := "[" + strings.ToUpper(phrase[:1]) + phrase[:1] + "]"
		text := strings.Join(strings.Fields(phrase[1:]), `(?:[ \t]+|[ \t]*\n[ \t]*(?://|#|\*)?[ \t]*)`)
		name := ""
		for _, word := range strings.Fields(phrase) {
			name += strings.ToUpper(word[:1]) + word[1:]
		}
		alternatives = append(alternatives, `\b`+first+text+`\b`, `\bTest\w*?`+name+`(?:[A-Z_]\w*)?\b`)
	}
	return regexp.MustCompile(strings.Join(alternatives, "|"))
}

// TestDocumentExamples checks that each public package has examples, and that each example has an
// output, so that go test runs it.
func TestDocumentExamples(t *testing.T) {
	example := regexp.MustCompile(`(?ms)^func Example\w*\(\) \{\n.*?^\}`)
	output := regexp.MustCompile(`(?m)^\t// (Unordered o|O)utput:`)
	for _, dir := range []string{"", "apiserver/", "clientgo/", "controllerruntime/", "debug/", "informertest/", "metrics/", "proxy/"} {
		found := 0
		for file, text := range repository(t, "^"+dir+`[^/]+_test\.go$`) {
			for _, code := range example.FindAllString(text, -1) {
				found++
				if !output.MatchString(code) {
					t.Errorf("%s: an example has no output: %s", file, code)
				}
			}
		}
		if found == 0 {
			t.Errorf("package %q has no example", dir)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|href)="([^"]+)"`)

// TestDocumentLinks checks that links from documents into the repository lead to existing files and
// headings.
func TestDocumentLinks(t *testing.T) {
	documents, links := repository(t, `\.md$`), 0
	for file, text := range documents {
		for _, found := range link.FindAllStringSubmatch(prose(text), -1) {
			target, anchor, _ := strings.Cut(found[1]+found[2], "#")
			if strings.Contains(target, ":") {
				continue // an external link
			}
			links++
			to := file
			if target != "" {
				to = path.Join(path.Dir(file), target)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s: %v", file, target, err)
			} else if anchor != "" && !anchors(prose(documents[to]))[anchor] {
				t.Errorf("%s links to %s#%s, and there is no such heading", file, target, anchor)
			}
		}
	}
	if links < 100 {
		t.Errorf("found only %d links", links)
	}
}

// anchors returns the anchors that GitHub assigns to headings.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		name := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		names[strings.ReplaceAll(name, " ", "-")] = true
	}
	return names
}

// testReference matches the name of a test in the threat model: directory.Test, or
// directory.Test/subtest.
var testReference = regexp.MustCompile("`([a-z0-9/-]+)\\.(Test\\w+)(?:/([\\w-]+))?`")

// TestThreatModel checks that each row of the threat model's tables names a test, and that the
// named tests exist.
func TestThreatModel(t *testing.T) {
	rows := 0
	for line := range strings.Lines(prose(textOf(t, "docs/explanation/threat-model.md"))) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.HasSuffix(line, "| test |") {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(line, "|"), "|")
		named := testReference.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(named) == 0 {
			t.Errorf("no test enforces %q", cells[0])
		}
		for _, name := range named {
			all := strings.Join(slices.Collect(maps.Values(repository(t, "^"+name[1]+`/[^/]+_test\.go$`))), "\n")
			if !strings.Contains(all, "\nfunc "+name[2]+"(t *testing.T)") || name[3] != "" && !strings.Contains(all, `"`+name[3]+`"`) {
				t.Errorf("the test %s of %q does not exist", name[0], cells[0])
			}
		}
	}
	if rows < 20 {
		t.Errorf("found only %d lines", rows)
	}
}

// TestChangelog checks that before the first release the changelog has no sections about changes
// and fixes, because no user has an earlier version.
func TestChangelog(t *testing.T) {
	text := textOf(t, "CHANGELOG.md")
	if regexp.MustCompile(`(?m)^## v\d`).MatchString(text) {
		return // there was a release
	}
	for _, heading := range regexp.MustCompile(`(?im)^### .*(changed|fixed|incompatible).*$`).FindAllString(text, -1) {
		t.Errorf("%q is of versions that were never released: docs and git have what has changed", heading)
	}
}
