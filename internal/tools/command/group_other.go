//go:build !unix

package command

import (
	"os"
	"os/exec"
	"syscall"
)

// attributes returns nil. The system has no process groups: its console sends interrupts to the
// child program as well.
func attributes(bool) *syscall.SysProcAttr { return nil }

// handOn does nothing, because the console has already sent the signal to the child program.
func handOn(*exec.Cmd, os.Signal) {}
