//go:build unix && !linux

package command

import "syscall"

// dieWithParent does nothing: only Linux can notify a program of its parent's end.
func dieWithParent(*syscall.SysProcAttr) {}
