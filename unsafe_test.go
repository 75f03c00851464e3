package weir_test

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// unsafePackages are the packages that may import unsafe. Each has a variant without it for the
// build tag weir_safe.
var unsafePackages = []string{"internal/core/decode", "internal/core/private", "internal/core/views"}

// TestUnsafe: no other package imports unsafe, and no package links to private names of others. The
// three import it only in files that the build tag weir_safe leaves out.
func TestUnsafe(t *testing.T) {
	const linkname = "//go:" + "linkname"
	importing := map[string]bool{}
	for dir, files := range goFiles(t) {
		for _, file := range files {
			path := filepath.Join(dir, file)
			text, err := os.ReadFile(path)
			check.NoError(t, err)
			if strings.Contains(string(text), linkname) {
				t.Errorf("%s uses go:linkname", path)
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ImportsOnly)
			check.NoError(t, err)
			for _, spec := range parsed.Imports {
				if spec.Path.Value != `"unsafe"` {
					continue
				}
				importing[dir] = true
				if !slices.Contains(unsafePackages, filepath.ToSlash(dir)) {
					t.Errorf("%s imports unsafe", path)
				}
				if !strings.HasPrefix(string(text), "//go:build !weir_safe\n") {
					t.Errorf("%s imports unsafe with the build tag weir_safe too", path)
				}
			}
		}
	}
	check.Equal(t, len(importing), len(unsafePackages), "packages import unsafe")
}
