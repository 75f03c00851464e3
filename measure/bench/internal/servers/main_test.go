package servers

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/weirproject/weir/internal/tools/child"
	"github.com/weirproject/weir/internal/tools/childserver/embedded"
)

// TestMain serves as the child process too, which is the embedded server.
func TestMain(m *testing.M) {
	child.Become(func(string) error { return embedded.Serve(context.Background(), os.Stdin, os.Stdout) })
	os.Setenv("GORACE", "atexit_sleep_ms=0") // else each child takes a second to end under -race
	goleak.VerifyTestMain(m)
}
