//go:build unix

package command

import (
	"os"
	"os/exec"
	"syscall"
)

// attributes returns the attributes for starting a program. If apart is set, the program gets a
// separate process group.
func attributes(apart bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: apart}
	dieWithParent(a)
	return a
}

// handOn sends a signal to a program. It does nothing if the program has ended.
func handOn(child *exec.Cmd, s os.Signal) { _ = child.Process.Signal(s) }
