package command

import "syscall"

// dieWithParent has the kernel send a program a SIGTERM when the thread that started it ends, and
// again for each thread of its process that it is handed over to: when that is killed, several may
// come, of which the second ends our programs at once.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGTERM }
