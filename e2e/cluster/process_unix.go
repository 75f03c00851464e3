//go:build unix && !linux

package cluster

import "syscall"

// childAttributes puts a child into a process group of its own, so that a terminal's SIGINT goes to
// the parent alone.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// awaitStop does nothing: wait4 would consume the child's exit status, for which its parent waits.
func awaitStop(int) {}
