package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/bench/internal/informers"
	"github.com/weirproject/weir/internal/child"
)

// TestMain serves as the child process too: that is how the sides run.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == child.Verb {
		none := func() (*rest.Config, error) { return nil, errors.New("tests have no cluster of their own") }
		if err := informers.Serve(context.Background(), os.Args[2], none, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // else each child takes a second to end under -race
	goleak.VerifyTestMain(m)
}
