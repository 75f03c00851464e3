package servers

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/prometheus/procfs"
)

// pid is the id of a process of this machine. The methods read /proc.
type pid int

func (p pid) stat() (procfs.ProcStat, error) {
	proc, err := procfs.NewProc(int(p))
	if err != nil {
		return procfs.ProcStat{}, err
	}
	return proc.Stat()
}

// cpu returns the CPU time that the process has used, in user mode and in the kernel.
func (p pid) cpu() (time.Duration, error) {
	stat, err := p.stat()
	return time.Duration(stat.CPUTime() * float64(time.Second)), err
}

// started returns when the process started, in seconds since 1970, like process_start_time_seconds.
func (p pid) started() (float64, error) {
	stat, err := p.stat()
	if err != nil {
		return 0, err
	}
	return stat.StartTime()
}

// memory returns the current and the largest resident set size, in bytes. If the process has ended,
// the error wraps io.ErrUnexpectedEOF.
func (p pid) memory() (now, peak float64, err error) {
	proc, err := procfs.NewProc(int(p))
	if err != nil {
		return 0, 0, err
	}
	status, err := proc.NewStatus()
	if err != nil {
		return 0, 0, err
	}
	if status.VmRSS == 0 {
		return 0, 0, fmt.Errorf("process %d: %w: no resident set", p, io.ErrUnexpectedEOF)
	}
	return float64(status.VmRSS), float64(max(status.VmRSS, status.VmHWM)), nil
}

// listening returns the process of this machine that listens on a TCP port. It returns false if
// there is none, or if this process has no permission to see it.
func listening(port int) (pid, bool) {
	fs, err := procfs.NewDefaultFS()
	if err != nil { // a system without /proc
		return 0, false
	}
	const listen = 0x0A
	var sockets []string
	//lint:ignore SA1019 the replacement asks the kernel by netlink, and this needs two small files
	for _, table := range []func() (procfs.NetTCP, error){fs.NetTCP, fs.NetTCP6} {
		lines, _ := table() // without IPv6 its table does not exist
		for _, line := range lines {
			if line.St == listen && line.LocalPort == uint64(port) {
				sockets = append(sockets, fmt.Sprintf("socket:[%d]", line.Inode))
			}
		}
	}
	all, _ := fs.AllProcs() // without processes, nothing is found
	for _, p := range all {
		open, _ := p.FileDescriptorTargets() // ignore errors: other users' processes cannot be read
		if slices.ContainsFunc(open, func(target string) bool { return slices.Contains(sockets, target) }) {
			return pid(p.PID), true
		}
	}
	return 0, false
}
