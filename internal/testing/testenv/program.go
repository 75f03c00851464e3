package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// skippedFile is the environment variable with the path of the file to which Skip adds a line for
// each test. make test sets it, and prints the lines at its end.
const skippedFile = "WEIR_SKIPPED"

// Program finds a program that Go does not build. It returns the path of the first of the names
// that is in the PATH. If none is, it skips the test, and the reason names the package of Debian
// that has the program.
func Program(t *testing.T, debian string, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	Skip(t, fmt.Sprintf("no %s (apt-get install %s)", strings.Join(names, " or "), debian))
	panic("unreachable")
}

// Skip skips the test for a reason of one line, which make test lists.
func Skip(t *testing.T, why string) {
	t.Helper()
	if path := os.Getenv(skippedFile); path != "" {
		if err := appendLine(path, t.Name()+": "+why); err != nil {
			t.Fatalf("%s, and %s names no file to write that to: %v", why, skippedFile, err)
		}
	}
	t.Skip(why)
}

// appendLine adds a line to a file in one write: tests of several packages run at the same time.
func appendLine(path, line string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteString(line + "\n")
	return err
}
