package command

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestReport: an error is one line and the exit code of its kind. A command that has run another
// program does not repeat its error.
func TestReport(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
		says string
	}{
		{nil, 0, ""},
		{errors.New("no\nanswer"), 1, "error: no; answer\n"},
		{fmt.Errorf("watch: %w", Usagef("no resource")), 2, "error: watch: no resource\n"},
		{ExitCode(7), 7, ""},
	} {
		var says strings.Builder
		if code := Report(&says, c.err); code != c.code || says.String() != c.says {
			t.Errorf("%v: exit code %d and %q, want %d and %q", c.err, code, says.String(), c.code, c.says)
		}
	}
}
