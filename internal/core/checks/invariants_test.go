package checks

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// broken is an environment variable. If it is set, the test program calls breakRule and ends.
const broken = "WEIR_TEST_BROKEN_RULE"

func TestMain(m *testing.M) {
	if os.Getenv(broken) != "" {
		breakRule()
	}
	goleak.VerifyTestMain(m)
}

// breakRule calls Fail while it holds a lock that its deferred call needs.
func breakRule() {
	var mu sync.Mutex
	defer mu.Lock()
	mu.Lock()
	Fail("two and two make five")
}

// TestFail checks that Fail ends the program even if a deferred call of its caller would block. The
// output must contain the text and the caller's name.
func TestFail(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), broken+"=1")
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Errorf("the program ended with %v, want exit code 2", err)
	}
	for _, want := range []string{"panic: two and two make five", "breakRule"} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("the program did not say %q:\n%s", want, out)
		}
	}
}
