package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// skippedFile is the environment variable with the path of a file. Skip appends a line to that file
// for each skipped test. The command "make test" sets the variable, and prints the file when the
// tests have ended.
const skippedFile = "WEIR_SKIPPED"

// Program returns the path of the first of the named programs that the PATH contains. If it
// contains none, Program skips the test with a reason that names debian, the Debian package of the
// program. It is for programs that are not built by Go.
func Program(t testing.TB, debian string, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	Skip(t, fmt.Sprintf("no %s (apt-get install %s)", strings.Join(names, " or "), debian))
	panic("unreachable")
}

// Skip skips the test. The argument why is the reason, in one line. The command "make test" prints
// the reason when all tests have ended.
func Skip(t testing.TB, why string) {
	t.Helper()
	if path := os.Getenv(skippedFile); path != "" {
		if err := appendLine(path, t.Name()+": "+why); err != nil {
			t.Fatalf("%s, and %s names no file to write that to: %v", why, skippedFile, err)
		}
	}
	t.Skip(why)
}

// appendLine appends a line to a file. It uses one write, because the tests of several packages
// append to the file at the same time.
func appendLine(path, line string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteString(line + "\n")
	return err
}
