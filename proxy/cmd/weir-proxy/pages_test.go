package main

import (
	"testing"

	"github.com/weirproject/weir/internal/testing/golden"
)

// TestPages checks that docs/commands contains a page of weir proxy with this command's help. The
// weir command itself does not have these flags.
func TestPages(t *testing.T) {
	cmd := newCommand()
	golden.CheckPage(t, "../../../docs/commands", golden.Page{
		Command: cmd.CommandPath(), Short: cmd.Short, Long: cmd.Long, Example: cmd.Example,
		// The order matters: UseLine includes the inherited flags only after LocalFlags was called.
		Flags: cmd.LocalFlags().FlagUsages(), Use: cmd.UseLine(),
	})
}
