package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var rewrite = flag.Bool("rewrite", false, "write docs/commands anew")

const pagesDir = "../../docs/commands"

// TestPages: docs/commands has a page of each command, as its help has it. Of a command that runs
// another program that program's tests write it, which know its flags.
func TestPages(t *testing.T) {
	root := newRoot()
	want, others := map[string]string{}, map[string]bool{}
	for _, cmd := range append(root.Commands(), root) {
		if cmd.DisableFlagParsing {
			others[pageName(cmd)] = true
		} else if cmd == root || cmd.IsAvailableCommand() && cmd.Name() != "help" {
			want[pageName(cmd)] = page(cmd)
		}
	}
	if *rewrite {
		for name, text := range want {
			if err := os.WriteFile(filepath.Join(pagesDir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	entries, err := os.ReadDir(pagesDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if others[entry.Name()] {
			delete(others, entry.Name())
			continue
		}
		text, err := os.ReadFile(filepath.Join(pagesDir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != want[entry.Name()] {
			t.Errorf("docs/commands/%s is not what the command's help says; go test . -run TestPages -rewrite writes the pages anew", entry.Name())
		}
		delete(want, entry.Name())
	}
	for _, name := range append(slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(others))...) {
		t.Errorf("docs/commands has no %s", name)
	}
}

func pageName(cmd *cobra.Command) string {
	return strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".md"
}

// page is a command's help as Markdown. Cobra's own generator would bring a renderer of man pages
// into the module.
func page(cmd *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<!-- Made of the command's help by TestPages; do not edit. -->\n\n# %s\n\n%s.\n\n", cmd.CommandPath(), cmd.Short)
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
			fmt.Fprintf(&b, "- [%s](%s): %s\n", c.CommandPath(), pageName(c), c.Short)
		}
	}
	return b.String()
}
