package weir_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestArchitecture checks the table of packages in ARCHITECTURE.md: it has every package of the
// repository and no other, and each imports only what stands above it.
func TestArchitecture(t *testing.T) {
	const module = "github.com/weirproject/weir"
	rank := packageTable(t)
	list := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`,
		"./...", "./bench/...", "./cmd/weir/...", "./controllerruntime/...", "./proxy/...", "./e2e/...", "./examples/...", "./metrics/...")
	list.Env = append(os.Environ(), "GOFLAGS=-mod=readonly")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	name := func(path string) (string, bool) {
		if path == module {
			return "weir", true
		}
		return strings.CutPrefix(path, module+"/")
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		paths := strings.Fields(line)
		of, _ := name(paths[0])
		found[of] = true
		if _, ok := rank[of]; !ok {
			t.Errorf("ARCHITECTURE.md does not have %s", of)
		}
		for _, path := range paths[1:] {
			if imported, ok := name(path); ok && rank[imported] >= rank[of] {
				t.Errorf("%s imports %s, which does not stand above it", of, imported)
			}
		}
	}
	for of := range rank {
		if !found[of] {
			t.Errorf("ARCHITECTURE.md has %s, which is no package", of)
		}
	}
}

// packageTable returns the row of each package in ARCHITECTURE.md's first table.
func packageTable(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## The packages")
	table, _, _ = strings.Cut(table, "\n## ")
	rank := map[string]int{}
	for line := range strings.Lines(table) {
		if first, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok && strings.HasPrefix(line, "| `") {
			for _, path := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(first, -1) {
				rank[path[1]] = len(rank) + 1
			}
		}
	}
	return rank
}
