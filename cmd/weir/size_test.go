package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/weirproject/weir/internal/testing/check"
)

// maxSize is the maximum size of weir after go install, in bytes.
const maxSize = 30e6

// TestSize: weir does not link far more than it needs. html/template, for which the linker keeps
// all exported methods, would add 8 MB.
func TestSize(t *testing.T) {
	program := filepath.Join(t.TempDir(), "weir")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags=", "-o", program, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(program)
	check.NoError(t, err)
	if info.Size() > maxSize {
		t.Errorf("weir has %d bytes, of %d at most", info.Size(), int(maxSize))
	}
}
