package command

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirproject/weir/internal/testing/check"
)

// terminal returns both ends of a new pseudo-terminal.
func terminal(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	check.NoError(t, err)
	t.Cleanup(func() { user.Close() })
	check.NoError(t, unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	check.NoError(t, err)
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	check.NoError(t, err)
	t.Cleanup(func() { program.Close() })
	return user, program
}

// TestExecTerminal: a program that Exec runs on a terminal can read it, and receives each of its
// interrupts once.
func TestExecTerminal(t *testing.T) {
	user, program := terminal(t)
	cmd := outer(innerCounts)
	cmd.Stdin = program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	lines := begin(t, cmd)
	var said []string
	for lines.Scan() {
		said = append(said, lines.Text())
		var typed string
		switch lines.Text() {
		case "ready":
			typed = "\x03"
		case "draining":
			typed = "\n"
		}
		if _, err := user.WriteString(typed); err != nil {
			t.Error(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	check.Equal(t, strings.Join(said, " "), "ready draining drained after another 0", "it said")
}

// TestExecKilled: a program that Exec runs ends when the process that runs it is killed.
func TestExecKilled(t *testing.T) {
	cmd := outer(innerPlain)
	got := drained(t, cmd, func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
	})
	_ = cmd.Wait() // it was killed
	if !strings.HasPrefix(got, "ready") || strings.Contains(got, "too late") {
		t.Errorf("it said %q", got)
	}
}
