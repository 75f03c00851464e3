package cluster

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes puts a child into a process group of its own, so that a terminal's SIGINT goes to
// the parent alone, and has the kernel kill it when the parent dies.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitStop waits until a child that was sent SIGSTOP has stopped, or has exited. It leaves the
// exit status to the parent's own wait.
func awaitStop(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
