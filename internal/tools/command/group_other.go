//go:build !unix

package command

import (
	"os"
	"os/exec"
	"syscall"
)

// attributes returns none: the console sends its interrupts to the program as well.
func attributes(bool) *syscall.SysProcAttr { return nil }

// handOn does nothing, for the same reason.
func handOn(*exec.Cmd, os.Signal) {}
