package weir_test

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// readRepository returns the text of each file of the repository, by path with slashes. It omits
// pictures and the output of builds.
var readRepository = sync.OnceValues(func() (map[string]string, error) {
	files := map[string]string{}
	return files, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "bin", "dist"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() || strings.HasSuffix(path, ".png"):
			return nil
		}
		text, err := os.ReadFile(path)
		files[filepath.ToSlash(path)] = string(text)
		return err
	})
})

// repository returns the text of each file of the repository whose path matches an expression, by
// path. It omits files in testdata.
func repository(t *testing.T, name string) map[string]string {
	t.Helper()
	all, err := readRepository()
	check.NoError(t, err)
	found, matches := maps.Clone(all), regexp.MustCompile(name).MatchString
	maps.DeleteFunc(found, func(path, _ string) bool { return !matches(path) || strings.Contains(path, "testdata/") })
	if len(found) == 0 {
		t.Fatalf("no file matches %s", name)
	}
	return found
}

func textOf(t *testing.T, path string) string {
	t.Helper()
	all, err := readRepository()
	check.NoError(t, err)
	text, ok := all[path]
	if !ok {
		t.Fatalf("there is no file %s", path)
	}
	return text
}

// goFiles returns the names of the repository's Go files, by directory.
func goFiles(t *testing.T) map[string][]string {
	t.Helper()
	files := map[string][]string{}
	for _, file := range slices.Sorted(maps.Keys(repository(t, `\.go$`))) {
		files[path.Dir(file)] = append(files[path.Dir(file)], path.Base(file))
	}
	return files
}

// prose returns the text of a document without its blocks of code.
func prose(text string) string {
	return regexp.MustCompile("(?ms)^ *```.*?^ *```$").ReplaceAllString(text, "")
}
