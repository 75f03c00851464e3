//go:build unix

package process

import (
	"runtime"
	"syscall"
	"time"
)

// CPUTime returns the CPU time of this process, including the kernel's for it.
func CPUTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// maxRSS returns the peak resident set from getrusage, in bytes, or 0 if that fails. On Linux it
// includes the parent's, so it is only for systems without a better source.
func maxRSS() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return int64(u.Maxrss) // bytes there, KiB elsewhere
	}
	return int64(u.Maxrss) << 10
}
