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

// terminal opens a pseudo-terminal. user is the end that a user types into, and program the end
// that a program reads.
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

// TestExecTerminal checks that a program that Exec runs on a terminal can read the terminal, and
// receives the first interrupt of the terminal once.
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

// TestExecKilled checks that a program ends when the process that called Exec is killed.
func TestExecKilled(t *testing.T) {
	cmd := outer(innerPlain)
	got := drained(t, cmd, func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
	})
	_ = cmd.Wait() // ignore the error: the test killed cmd
	if !strings.HasPrefix(got, "ready") || strings.Contains(got, "too late") {
		t.Errorf("it said %q", got)
	}
}
