package doctor

import (
	"bytes"
	"context"
	"os/exec"
	"testing"
)

// run runs a program and returns what it prints.
func run(ctx context.Context, t *testing.T, program string, args ...string) []byte {
	t.Helper()
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	t.Logf("%s", &said)
	if err != nil {
		t.Fatalf("%s %v: %v", program, args, err)
	}
	return out.Bytes()
}
