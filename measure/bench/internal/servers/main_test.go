package servers

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/weirproject/weir/internal/tools/embedded"
	"github.com/weirproject/weir/internal/tools/process"
)

// TestMain serves as the child process too, which is the embedded server.
func TestMain(m *testing.M) {
	process.Become(func(string) error { return embedded.Serve(context.Background(), os.Stdin, os.Stdout) })
	os.Setenv("GORACE", "atexit_sleep_ms=0") // else each child takes a second to end under -race
	goleak.VerifyTestMain(m)
}
