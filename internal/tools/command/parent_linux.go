package command

import "syscall"

// dieWithParent makes the kernel send a program SIGTERM when the thread that started it ends. The
// kernel then makes another thread of that process the parent, and sends the signal again when that
// one ends. So if the process is killed, the program may receive several; Weir's programs end
// immediately on the second one.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGTERM }
