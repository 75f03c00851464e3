package cluster

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes puts a child into its own process group, so that a terminal's SIGINT reaches only
// the parent. It also makes the kernel kill the child when the parent dies.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitStop waits until a child that received SIGSTOP has stopped or exited. It does not consume
// the exit status, for which the parent waits.
func awaitStop(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
