package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/weirproject/weir/internal/helppage"
)

const pagesDir = "../../docs/commands"

// TestPages: docs/commands has a page of each command, as its help has it, and no other. Of a
// command that runs another program that program's tests write it, which know its flags and verbs.
func TestPages(t *testing.T) {
	root := newRoot()
	pages := map[string]bool{}
	for _, cmd := range append(root.Commands(), root) {
		if cmd.DisableFlagParsing {
			pages[helppage.Name(cmd.CommandPath())] = true
		} else if cmd == root || cmd.IsAvailableCommand() && cmd.Name() != "help" {
			pages[helppage.Name(cmd.CommandPath())] = true
			helppage.Check(t, pagesDir, pageOf(cmd))
		}
	}
	entries, err := os.ReadDir(pagesDir)
	if err != nil {
		t.Fatal(err)
	}
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

// pageOf returns what the page of a command says.
func pageOf(cmd *cobra.Command) helppage.Page {
	page := helppage.Page{
		Command: cmd.CommandPath(), Short: cmd.Short, Long: cmd.Long, Example: cmd.Example,
		// In this order: only then UseLine knows of flags that the verbs share.
		Flags: cmd.LocalFlags().FlagUsages(), Use: cmd.UseLine(),
	}
	for _, verb := range cmd.Commands() { // by their names
		if verb.IsAvailableCommand() && verb.Name() != "help" {
			page.Verbs = append(page.Verbs, helppage.Page{Command: verb.CommandPath(), Short: verb.Short})
		}
	}
	return page
}
