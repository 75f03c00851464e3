package testenv

import (
	"os"
	"path/filepath"
	"testing"
)

// TestProgram checks that Program finds a program, that it skips a test if it finds none, and that
// the file for skipped tests contains a line for each skipped test.
func TestProgram(t *testing.T) {
	dir := t.TempDir()
	skipped := filepath.Join(dir, "skipped")
	t.Setenv("PATH", dir)
	t.Setenv(skippedFile, skipped)
	if err := os.WriteFile(filepath.Join(dir, "second"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := Program(t, "package", "first", "second"); got != filepath.Join(dir, "second") {
		t.Errorf("found %q", got)
	}
	for _, name := range []string{"one", "two"} {
		t.Run(name, func(t *testing.T) {
			Program(t, "package", "first", "third")
			t.Error("a test without its program goes on")
		})
	}
	got, err := os.ReadFile(skipped)
	if want := "TestProgram/one: no first or third (apt-get install package)\nTestProgram/two: no first or third (apt-get install package)\n"; string(got) != want {
		t.Errorf("the file has %q (%v), want %q", got, err, want)
	}
}
