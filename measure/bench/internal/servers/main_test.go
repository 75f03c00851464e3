package servers

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/weirproject/weir/internal/tools/embedded"
	"github.com/weirproject/weir/internal/tools/process"
)

// TestMain runs the tests. In a child process, it runs the embedded server instead.
func TestMain(m *testing.M) {
	process.Become(func(string) error { return embedded.Serve(context.Background(), os.Stdin, os.Stdout) })
	os.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise each child under -race ends a second later
	goleak.VerifyTestMain(m)
}
