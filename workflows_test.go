package weir_test

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestWorkflows checks that each workflow may only read the repository. It must name each action by
// commit, with the version in a comment, and a checkout must leave no credentials for later steps.
func TestWorkflows(t *testing.T) {
	uses, byCommit := regexp.MustCompile(`(?m)^ *- uses: .*`), regexp.MustCompile(`@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	commits := map[string]string{} // the commit of each action
	for file, text := range repository(t, `^\.github/workflows/`) {
		if strings.Count(text, "permissions:") != 1 || !strings.Contains(text, "\npermissions:\n  contents: read\njobs:\n") {
			t.Errorf("%s has other permissions than to read the repository", file)
		}
		for _, line := range uses.FindAllString(text, -1) {
			action, commit, _ := strings.Cut(line, "@")
			if !byCommit.MatchString(line) || commits[action] != "" && commits[action] != commit {
				t.Errorf("%s: want one commit of each action and its version, not %s", file, line)
			}
			commits[action] = commit
		}
		if strings.Count(text, "uses: actions/checkout@") != strings.Count(text, "persist-credentials: false") {
			t.Errorf("%s: a checkout leaves credentials", file)
		}
	}
	if len(commits) == 0 {
		t.Error("no workflow uses an action")
	}
}

// TestDependencyUpdates checks that dependabot.yml covers each module once. The directory / covers
// all modules of go.work.
func TestDependencyUpdates(t *testing.T) {
	var covered, modules []string
	for _, m := range regexp.MustCompile(`(?m)^ +(?:-|directory:) /(\S*)$`).FindAllStringSubmatch(textOf(t, ".github/dependabot.yml"), -1) {
		covered = append(covered, path.Clean(m[1]))
	}
	for _, m := range regexp.MustCompile(`(?m)^\t(\.\S*)$`).FindAllStringSubmatch(textOf(t, "go.work"), -1) {
		if m[1] != "." {
			covered = append(covered, path.Clean(m[1]))
		}
	}
	for file := range repository(t, `(^|/)go\.mod$`) {
		modules = append(modules, path.Dir(file))
	}
	modules = append(modules, ".") // the directory of the actions
	slices.Sort(covered)
	slices.Sort(modules)
	if !slices.Equal(covered, modules) {
		t.Errorf("dependabot.yml covers\n%q, and the modules are\n%q", covered, modules)
	}
}
