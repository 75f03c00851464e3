package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/golden"
)

const pagesDir = "../../docs/commands"

// TestPages: docs/commands has exactly one page per command, equal to its help. The page of a
// command that runs another program is written by that program's tests, which know its flags and
// verbs.
func TestPages(t *testing.T) {
	root := newRoot()
	pages := map[string]bool{}
	for _, cmd := range append(root.Commands(), root) {
		if cmd.DisableFlagParsing {
			pages[golden.PageName(cmd.CommandPath())] = true
		} else if cmd == root || cmd.IsAvailableCommand() && cmd.Name() != "help" {
			pages[golden.PageName(cmd.CommandPath())] = true
			golden.CheckPage(t, pagesDir, pageOf(cmd))
		}
	}
	entries, err := os.ReadDir(pagesDir)
	check.NoError(t, err)
	for _, entry := range entries {
		if !pages[entry.Name()] && !strings.HasPrefix(entry.Name(), "weir-bench-") {
			t.Errorf("docs/commands/%s is the page of no command", entry.Name())
		}
		delete(pages, entry.Name())
	}
	for name := range pages {
		t.Errorf("docs/commands has no %s", name)
	}
}

// pageOf returns the contents of a command's page.
func pageOf(cmd *cobra.Command) golden.Page {
	page := golden.Page{
		Command: cmd.CommandPath(), Short: cmd.Short, Long: cmd.Long, Example: cmd.Example,
		// The order matters: only after LocalFlags does UseLine know the flags that verbs share.
		Flags: cmd.LocalFlags().FlagUsages(), Use: cmd.UseLine(),
	}
	for _, verb := range cmd.Commands() { // by their names
		if verb.IsAvailableCommand() && verb.Name() != "help" {
			page.Verbs = append(page.Verbs, golden.Page{Command: verb.CommandPath(), Short: verb.Short})
		}
	}
	return page
}
