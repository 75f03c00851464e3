//go:build unix

package command

import (
	"os"
	"os/exec"
	"syscall"
)

// attributes returns those of a program that is to be started, in a process group of its own if it
// is to be apart.
func attributes(apart bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: apart}
	dieWithParent(a)
	return a
}

// handOn sends a signal to a program. One that has just ended gets none.
func handOn(child *exec.Cmd, s os.Signal) { _ = child.Process.Signal(s) }
