package main

import (
	"testing"

	"github.com/weirproject/weir/internal/helppage"
)

// TestPages: docs/commands has a page of weir proxy, as this program's help has it: weir itself
// does not know its flags.
func TestPages(t *testing.T) {
	cmd := newCommand()
	helppage.CheckHelp(t, "../../../docs/commands", "weir proxy", cmd.Short, cmd)
}
