package weir_test

import (
	"go/build/constraint"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

var testName = regexp.MustCompile(`(?m)^func (Test\w+)\(\w+ \*testing\.T\)`)

// TestMakefile checks that the Makefile's targets run every test. They must run the packages of all
// modules, and use each build tag that a test file needs. If the race detector skips some tests of
// a package, they must run the package again without it. TestMakefile also checks that the tests
// that a target names exist.
func TestMakefile(t *testing.T) {
	makefile := textOf(t, "Makefile")
	variable := func(name string) []string {
		m := regexp.MustCompile(`(?m)^` + name + `\s*:?= (.+)$`).FindStringSubmatch(makefile)
		if m == nil {
			t.Fatalf("the Makefile has no %s", name)
		}
		return strings.Fields(m[1])
	}
	modules := variable("PACKAGES")
	for _, m := range regexp.MustCompile(`(?m)^\t(\.\S*)$`).FindAllStringSubmatch(textOf(t, "go.work"), -1) {
		if m[1] != "./e2e" && !slices.Contains(modules, strings.TrimSuffix(m[1], "/")+"/...") && m[1] != "." {
			t.Errorf("PACKAGES lacks module %s", m[1])
		}
	}
	without := slices.Concat(variable("PLAIN"), variable("BOTH"), variable("INVARIANTS"))
	tags := []string{"race", "unix", "linux"}
	for _, m := range regexp.MustCompile(`-tags (\w+)`).FindAllStringSubmatch(makefile, -1) {
		tags = append(tags, m[1])
	}
	var tests []string
	tested := map[string]bool{}
	for file, text := range repository(t, `_test\.go$`) {
		dir := path.Dir(file)
		tested[dir] = true
		for _, m := range testName.FindAllStringSubmatch(text, -1) {
			tests = append(tests, m[1])
		}
		if regexp.MustCompile(`(?m)^\ttestenv\.(Skip|Run)UnderRace\(`).MatchString(text) && !slices.Contains(without, dir) {
			t.Errorf("%s has tests that the race detector skips, and unit does not run %s without it", file, dir)
		}
		for _, tag := range unknownTags(t, text, tags) {
			t.Errorf("%s: no target has the build tag %s", file, tag)
		}
	}
	for _, dir := range without {
		if !tested[dir] {
			t.Errorf("the Makefile names %s, which has no tests", dir)
		}
	}
	named := regexp.MustCompile(`-run '([^'/]+)`).FindAllStringSubmatch(makefile, -1)
	for _, m := range named {
		pattern := regexp.MustCompile(strings.ReplaceAll(m[1], "$$", "$"))
		if !slices.ContainsFunc(tests, pattern.MatchString) {
			t.Errorf("the Makefile runs %s, which is no test", m[1])
		}
	}
	if len(named) == 0 || len(modules) == 0 || len(tests) == 0 {
		t.Errorf("found %d tests named, %d modules, %d tests", len(named), len(modules), len(tests))
	}
}

// unknownTags returns the build tags that a file needs, except the known tags. A build always sets
// the first three known tags.
func unknownTags(t *testing.T, text string, known []string) (unknown []string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !constraint.IsGoBuild(line) {
			continue
		}
		expr, err := constraint.Parse(line)
		check.NoError(t, err)
		if !expr.Eval(func(tag string) bool { return slices.Contains(known[:3], tag) }) {
			expr.Eval(func(tag string) bool {
				if !slices.Contains(known, tag) {
					unknown = append(unknown, tag)
				}
				return true
			})
		}
	}
	return unknown
}
