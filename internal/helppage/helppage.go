// Package helppage compares the pages of docs/commands with the help of the commands that they are
// of.
package helppage

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/golden"
)

// Command is what cobra.Command has, which this module does not require.
type Command interface {
	SetOut(io.Writer)
	Help() error
}

// Name returns the name of a command's page.
func Name(command string) string { return strings.ReplaceAll(command, " ", "-") + ".md" }

// Check compares the page of a command, in the folder of pages, with a head and what a program says
// of it; with -rewrite it writes it.
func Check(t testing.TB, folder, command, short, text string) {
	t.Helper()
	head := fmt.Sprintf("<!-- Made of the command's help by TestPages; do not edit. -->\n\n# %s\n\n%s.\n\n", command, short)
	golden.File(t, filepath.Join(folder, Name(command)), head+text)
}

// CheckHelp compares the page of a command that has all that its help prints.
func CheckHelp(t testing.TB, folder, command, short string, cmd Command) {
	t.Helper()
	var help bytes.Buffer
	cmd.SetOut(&help)
	if err := cmd.Help(); err != nil {
		t.Fatal(err)
	}
	Check(t, folder, command, short, fmt.Sprintf("```\n%s```\n", &help))
}
