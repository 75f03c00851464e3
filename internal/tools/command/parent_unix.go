//go:build unix && !linux

package command

import "syscall"

// dieWithParent does nothing: only Linux can report the parent's end to a program.
func dieWithParent(*syscall.SysProcAttr) {}
