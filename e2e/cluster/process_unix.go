//go:build unix && !linux

package cluster

import "syscall"

// childAttributes puts a child into its own process group, so that a terminal's SIGINT reaches only
// the parent.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// awaitStop does nothing on this system: wait4 would consume the child's exit status, for which its
// parent waits.
func awaitStop(int) {}
