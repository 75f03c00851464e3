package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/testing/golden"
)

const pagesDir = "../../../../docs/commands"

// TestPages checks that the pages of weir bench, its verbs and weir lab in docs/commands equal this
// program's help. It checks that no page is about an unknown verb. weir's own tests cannot check
// these pages, because weir does not know the flags.
func TestPages(t *testing.T) {
	bench := newRoot()
	page, pages := pageOf(bench), map[string]bool{}
	for _, verb := range bench.Commands() { // in the order of their names
		if !verb.IsAvailableCommand() || verb.Name() == "help" {
			continue
		}
		of := pageOf(verb)
		of.FlagsOf = page.Command
		page.Verbs = append(page.Verbs, of)
		pages[golden.PageName(of.Command)] = true
		golden.CheckPage(t, pagesDir, of)
	}
	golden.CheckPage(t, pagesDir, page)
	weir := &cobra.Command{Use: "weir"}
	weir.AddCommand(newLab())
	golden.CheckPage(t, pagesDir, pageOf(weir.Commands()[0]))

	entries, err := os.ReadDir(pagesDir)
	check.NoError(t, err)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "weir-bench-") && !pages[entry.Name()] {
			t.Errorf("docs/commands/%s is the page of no verb", entry.Name())
		}
	}
}

// pageOf returns the contents of a command's page.
func pageOf(cmd *cobra.Command) golden.Page {
	return golden.Page{
		Command: cmd.CommandPath(), Short: cmd.Short, Long: cmd.Long, Example: cmd.Example,
		// The order matters: UseLine knows the flags that verbs share only after LocalFlags was called.
		Flags: cmd.LocalFlags().FlagUsages(), Use: cmd.UseLine(),
	}
}
