package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// TestPages: each incident has a page in docs/incidents, with its picture and the command.
func TestPages(t *testing.T) {
	const dir = "../../../../docs/incidents"
	index, err := os.ReadFile(filepath.Join(dir, "README.md"))
	check.NoError(t, err)
	for _, i := range Incidents() {
		page, err := os.ReadFile(filepath.Join(dir, i.Name+".md"))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, want := range []string{"](" + i.Name + ".svg)", "weir lab " + i.Name, "## The mechanism", "## How to recognise it", "## What Weir does instead"} {
			if !strings.Contains(string(page), want) {
				t.Errorf("the page of %s has no %q", i.Name, want)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, i.Name+".svg")); err != nil {
			t.Error(err)
		}
		if !strings.Contains(string(index), "("+i.Name+".md)") {
			t.Errorf("the list of incidents has no %s", i.Name)
		}
	}
}
