//go:build unix

package command

import (
	"os"
	"os/exec"
	"syscall"
)

// attributes returns the attributes of a program to start, in a separate process group if apart is
// set.
func attributes(apart bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: apart}
	dieWithParent(a)
	return a
}

// handOn sends a signal to a program. It does nothing if the program has ended.
func handOn(child *exec.Cmd, s os.Signal) { _ = child.Process.Signal(s) }
