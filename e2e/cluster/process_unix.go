//go:build unix && !linux

package cluster

import "syscall"

// childAttributes puts a child into a process group of its own, so that a terminal's SIGINT goes to
// the parent alone.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// awaitStop does nothing: wait4 would take the child's exit from whoever started it.
func awaitStop(int) {}
