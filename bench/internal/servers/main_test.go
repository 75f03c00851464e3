package servers

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/weirproject/weir/internal/child"
	"github.com/weirproject/weir/internal/childserver/embedded"
)

// TestMain serves as the child process too, which is the embedded server.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == child.Verb {
		if err := embedded.Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // else each child takes a second to end under -race
	goleak.VerifyTestMain(m)
}
