//go:build unix && !linux

package cluster

import "syscall"

// childAttributes puts a child into its own process group: a SIGINT of the terminal then reaches
// only the parent.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// awaitStop is a no-op on this system. wait4 would consume the exit status that the parent waits
// for.
func awaitStop(int) {}
