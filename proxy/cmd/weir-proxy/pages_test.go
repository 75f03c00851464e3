package main

import (
	"testing"

	"github.com/weirproject/weir/internal/testing/golden"
)

// TestPages: docs/commands has a page of weir proxy, as this program's help has it: weir itself
// does not know its flags.
func TestPages(t *testing.T) {
	cmd := newCommand()
	golden.CheckPage(t, "../../../docs/commands", golden.Page{
		Command: cmd.CommandPath(), Short: cmd.Short, Long: cmd.Long, Example: cmd.Example,
		// In this order: only then UseLine knows of flags that the verbs share.
		Flags: cmd.LocalFlags().FlagUsages(), Use: cmd.UseLine(),
	})
}
