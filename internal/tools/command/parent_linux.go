package command

import "syscall"

// dieWithParent makes the kernel send a program SIGTERM when the thread that started the program
// ends. The kernel then makes another thread of the same process the parent, and sends SIGTERM
// again when that thread ends. So if this process is killed, the program may receive SIGTERM
// several times; Weir's programs end immediately on the second SIGTERM.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGTERM }
