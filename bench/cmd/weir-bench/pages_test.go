package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/spf13/cobra"
)

var rewrite = flag.Bool("rewrite", false, "write this program's pages of docs/commands anew")

// TestPages: docs/commands has pages of weir bench and weir lab, as this program's help has them:
// weir itself does not know their flags.
func TestPages(t *testing.T) {
	weir := &cobra.Command{Use: "weir"}
	weir.AddCommand(newLab())
	for name, cmd := range map[string]*cobra.Command{"weir bench": newRoot(), "weir lab": weir.Commands()[0]} {
		var help bytes.Buffer
		cmd.SetOut(&help)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		page := fmt.Sprintf("<!-- Made of the command's help by TestPages; do not edit. -->\n\n# %s\n\n%s.\n\n```\n%s```\n", name, cmd.Short, &help)
		path := "../../../docs/commands/weir-" + name[len("weir "):] + ".md"
		if *rewrite {
			if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != page {
			t.Errorf("%s is not what the command's help says (%v); go test . -run TestPages -rewrite writes it anew", path, err)
		}
	}
}
