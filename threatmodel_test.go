package weir_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// testReference matches the name of a test in the threat model: directory.Test, or
// directory.Test/subtest.
var testReference = regexp.MustCompile("`([a-z0-9/-]+)\\.(Test\\w+)(?:/([\\w-]+))?`")

// TestThreatModel: each line of the threat model's tables names a test, and each test that it names
// exists.
func TestThreatModel(t *testing.T) {
	rows := 0
	for line := range strings.Lines(prose(t, "docs/threat-model.md")) {
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
			if !hasTest(t, name[1], name[2], name[3]) {
				t.Errorf("the test %s of %q does not exist", name[0], cells[0])
			}
		}
	}
	if rows < 20 {
		t.Errorf("found only %d lines", rows)
	}
}

// hasTest reports whether a directory has a test, and names its subtest, if any.
func hasTest(t *testing.T, dir, test, subtest string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	check.NoError(t, err)
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		check.NoError(t, err)
		all.Write(text)
	}
	return strings.Contains(all.String(), "\nfunc "+test+"(t *testing.T)") && (subtest == "" || strings.Contains(all.String(), `"`+subtest+`"`))
}
