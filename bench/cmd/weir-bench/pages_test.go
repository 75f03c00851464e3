package main

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/weirproject/weir/internal/helppage"
)

// TestPages: docs/commands has pages of weir bench and weir lab, as this program's help has them:
// weir itself does not know their flags.
func TestPages(t *testing.T) {
	weir := &cobra.Command{Use: "weir"}
	weir.AddCommand(newLab())
	for name, cmd := range map[string]*cobra.Command{"weir bench": newRoot(), "weir lab": weir.Commands()[0]} {
		helppage.CheckHelp(t, "../../../docs/commands", name, cmd.Short, cmd)
	}
}
