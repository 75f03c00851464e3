//go:build !unix

package command

import (
	"os"
	"os/exec"
)

// apart does nothing: the console sends its interrupts to the program as well.
func apart(*exec.Cmd) {}

// handOn does nothing, for the same reason.
func handOn(*exec.Cmd, os.Signal) {}
