package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/weirproject/weir/internal/helppage"
)

const pagesDir = "../../docs/commands"

// TestPages: docs/commands has a page of each command, as its help has it, and no other. Of a
// command that runs another program that program's tests write it, which know its flags.
func TestPages(t *testing.T) {
	root := newRoot()
	pages := map[string]bool{}
	for _, cmd := range append(root.Commands(), root) {
		if cmd.DisableFlagParsing {
			pages[helppage.Name(cmd.CommandPath())] = true
		} else if cmd == root || cmd.IsAvailableCommand() && cmd.Name() != "help" {
			pages[helppage.Name(cmd.CommandPath())] = true
			helppage.Check(t, pagesDir, cmd.CommandPath(), cmd.Short, helpText(cmd))
		}
	}
	entries, err := os.ReadDir(pagesDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !pages[entry.Name()] {
			t.Errorf("docs/commands/%s is the page of no command", entry.Name())
		}
		delete(pages, entry.Name())
	}
	for name := range pages {
		t.Errorf("docs/commands has no %s", name)
	}
}

// helpText is a command's help as Markdown. Cobra's own generator would bring a renderer of man
// pages into the module.
func helpText(cmd *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "```\n%s\n```\n", cmd.UseLine())
	if cmd.Long != "" {
		fmt.Fprintf(&b, "\n%s\n", cmd.Long)
	}
	section := func(title, text string) {
		if text = strings.Trim(text, "\n"); text != "" {
			fmt.Fprintf(&b, "\n## %s\n\n```\n%s\n```\n", title, text)
		}
	}
	section("Examples", cmd.Example)
	section("Flags", cmd.LocalFlags().FlagUsages())
	if cmd.HasAvailableSubCommands() {
		fmt.Fprint(&b, "\n## Commands\n\n")
		commands := slices.DeleteFunc(slices.Clone(cmd.Commands()), func(c *cobra.Command) bool { return !c.IsAvailableCommand() || c.Name() == "help" })
		slices.SortFunc(commands, func(a, b *cobra.Command) int { return strings.Compare(a.Name(), b.Name()) })
		for _, c := range commands {
			fmt.Fprintf(&b, "- [%s](%s): %s\n", c.CommandPath(), helppage.Name(c.CommandPath()), c.Short)
		}
	}
	return b.String()
}
