package main

import (
	"io"
	"strings"
	"testing"

	"github.com/weirproject/weir/internal/tools/command"
)

// TestServeWithoutItsProgram: a user who has installed only weir receives a hint about weir-serve.
func TestServeWithoutItsProgram(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("PATH", "")
	for _, args := range [][]string{{"serve"}, {"watch", "pods", "--embedded", "5"}} {
		root := newRoot()
		root.SetArgs(args)
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		err := root.ExecuteContext(t.Context())
		want := "install it with: go install " + command.Serve.Package + "@latest"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", args, err)
		}
	}
}
