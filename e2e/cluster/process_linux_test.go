package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/weirproject/weir/internal/testing/check"
)

func TestServersDieWithParent(t *testing.T) {
	if childAttributes().Pdeathsig != syscall.SIGKILL {
		t.Fatal("nothing kills the servers with their parent")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	check.NoError(t, err)
	check.NoError(t, cmd.Start())
	var c child
	decodeErr := json.NewDecoder(stdout).Decode(&c)
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	// The error says that the process was killed.
	_ = cmd.Wait()
	check.NoError(t, decodeErr)
	defer os.RemoveAll(c.Dir)
	for _, pid := range c.PIDs {
		err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
			return gone(pid), nil
		})
		if err != nil {
			t.Errorf("process %d has outlived its parent", pid)
		}
	}
}

// TestPausedProcessHasStopped checks that a process is in the stopped state when pause returns. It
// also checks that pause returns for a process that has exited.
func TestPausedProcessHasStopped(t *testing.T) {
	p, err := StartProgram("/bin/sh", []string{"-c", "while :; do :; done"}, nil, filepath.Join(t.TempDir(), "log"))
	check.NoError(t, err)
	defer p.Stop()
	for i := range 200 {
		p.pause()
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
		check.NoError(t, err)
		if state := raw[bytes.LastIndexByte(raw, ')')+2]; state != 'T' {
			t.Fatalf("pause %d: state %c", i, state)
		}
		p.resume()
	}
	p.Stop()
	p.pause()
}

// gone reports whether a process no longer runs. A zombie, which waits for its parent to read its
// exit status, counts as gone.
func gone(pid int) bool {
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return true
	}
	_, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)) // a zombie has no executable
	return err != nil
}
