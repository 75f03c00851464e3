// Package program finds programs that the tests run and Go does not build: Debian's packages have
// them.
package program

import (
	"os/exec"
	"strings"
	"testing"
)

// Find returns the path of the first of the names that is in the PATH. If none is, the test fails
// and says which package of Debian has it.
func Find(t *testing.T, debian string, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatalf("there is no %s: install Debian's package %s (apt-get install %s), or what has it elsewhere", strings.Join(names, ", or "), debian, debian)
	panic("unreachable")
}
