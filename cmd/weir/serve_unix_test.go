//go:build unix

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
	"github.com/weirproject/weir/internal/tools/command"
)

// TestServeWhoseProgramEnds: a server that ends does not leave the command waiting.
func TestServeWhoseProgramEnds(t *testing.T) {
	program := filepath.Join(t.TempDir(), command.Serve.Name())
	script := "#!/bin/sh\nread spec\necho '{\"URL\":\"http://127.0.0.1:1\"}'\necho gone >&2\n"
	check.NoError(t, os.WriteFile(program, []byte(script), 0o755))
	t.Setenv("PATH", filepath.Dir(program))
	t.Chdir(t.TempDir())
	root := newRoot()
	root.SetArgs([]string{"serve"})
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(t.Context()) }()
	select {
	case err := <-ended:
		if err == nil || !strings.HasSuffix(err.Error(), "process ended early: gone") {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for a server that has gone")
	}
}
