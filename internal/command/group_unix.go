//go:build unix

package command

import (
	"os"
	"os/exec"
	"syscall"
)

// apart puts a program that is to be started into a process group of its own.
func apart(child *exec.Cmd) { child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// handOn sends a signal to a program that runs apart. One that has just ended gets none.
func handOn(child *exec.Cmd, s os.Signal) { _ = child.Process.Signal(s) }
