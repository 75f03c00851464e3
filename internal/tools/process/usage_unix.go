//go:build unix

package process

import (
	"runtime"
	"syscall"
	"time"
)

// CPUTime returns the CPU time that this process has used, in user mode and in the kernel.
func CPUTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// maxRSS returns the peak resident set size from getrusage, in bytes, or 0 if getrusage fails. On
// Linux the value includes the parent's peak, so PeakRSS uses it only as a last resort.
func maxRSS() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return int64(u.Maxrss) // darwin reports bytes, other systems KiB
	}
	return int64(u.Maxrss) << 10
}
