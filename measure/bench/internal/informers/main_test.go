package informers

import (
	"context"
	"errors"
	"os"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"

	"github.com/weirproject/weir/internal/tools/process"
)

// TestMain runs the tests. In a child process it runs a contender or a stub instead.
func TestMain(m *testing.M) {
	none := func() (*rest.Config, error) { return nil, errors.New("tests have no cluster of their own") }
	process.Become(func(role string) error {
		return Serve(context.Background(), role, none, os.Stdin, os.Stdout)
	})
	os.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise each child under -race ends a second later
	goleak.VerifyTestMain(m)
}
