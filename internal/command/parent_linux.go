package command

import "syscall"

// dieWithParent has the kernel send a program a SIGTERM when the thread that started it ends. The
// kernel then makes another thread of that process the parent, and sends again when that one ends.
// So if the process is killed, several may come; the second one ends our programs at once.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGTERM }
