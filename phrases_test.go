package weir_test

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// unclearPhrases hide the actor of a sentence or are not plain English. Each has a replacement.
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

// TestProsePhrases: no file contains an unclear phrase, nor does the name of a test.
func TestProsePhrases(t *testing.T) {
	unclear := phrasePattern(slices.Collect(maps.Keys(unclearPhrases)))
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		path = filepath.ToSlash(path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "dist", "fuzz"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() || path == "phrases_test.go" || strings.HasSuffix(path, ".png"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		for _, at := range unclear.FindAllIndex(text, -1) {
			t.Errorf("%s:%d: %q", path, 1+bytes.Count(text[:at[0]], []byte("\n")), text[at[0]:at[1]])
		}
		return nil
	})
	check.NoError(t, err)
	if files == 0 {
		t.Error("found no files")
	}
}

// TestPhrasePattern: the pattern finds a phrase as whole words, across the lines of a
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
		if unclear.MatchString(text) != found {
			t.Errorf("found in %q: %v", text, !found)
		}
	}
}

// phrasePattern returns an expression that matches the phrases. http.NoBody is not nobody.
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
