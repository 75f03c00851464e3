package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// maxSize is how large weir may be as go install leaves it, in bytes.
const maxSize = 30e6

// TestSize: weir does not grow by what links far more than it needs. With html/template, for which
// the linker keeps all exported methods, it has 8 MB more.
func TestSize(t *testing.T) {
	program := filepath.Join(t.TempDir(), "weir")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags=", "-o", program, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > maxSize {
		t.Errorf("weir has %d bytes, of %d at most", info.Size(), int(maxSize))
	}
}
