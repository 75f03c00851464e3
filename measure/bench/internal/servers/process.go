package servers

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of CPU time in /proc: USER_HZ is 100 wherever Go runs.
const clockTick = 10 * time.Millisecond

// pid is a process of this machine, by its id. It is read from /proc.
type pid int

func (p pid) file(name string) string { return filepath.Join("/proc", strconv.Itoa(int(p)), name) }

// cpu returns the CPU time that the process has used, its own and the kernel's for it.
func (p pid) cpu() (time.Duration, error) {
	stat, err := os.ReadFile(p.file("stat"))
	if err != nil {
		return 0, err
	}
	return parseStat(stat)
}

// parseStat reads the CPU time out of a /proc/PID/stat.
func parseStat(stat []byte) (time.Duration, error) {
	// Both stand behind the program's name, which is in brackets and may have anything in it.
	const utime, stime = 11, 12
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= stime {
		return 0, fmt.Errorf("proc: no CPU time in %.80q", stat)
	}
	var ticks int64
	for _, field := range [][]byte{fields[utime], fields[stime]} {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("proc: no CPU time in %.80q", stat)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// started returns when the process was started, in seconds since 1970, as the metrics of processes
// tell it.
func (p pid) started() (float64, error) {
	stat, err := os.ReadFile(p.file("stat"))
	if err != nil {
		return 0, err
	}
	machine, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	return parseStart(stat, machine)
}

// parseStart reads the start of a process out of its /proc/PID/stat, which counts from the start of
// the machine, and out of /proc/stat, which has that.
func parseStart(stat, machine []byte) (float64, error) {
	const starttime = 19 // behind the program's name
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= starttime {
		return 0, fmt.Errorf("proc: no start in %.80q", stat)
	}
	ticks, err := strconv.ParseInt(string(fields[starttime]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("proc: no start in %.80q", stat)
	}
	for line := range bytes.Lines(machine) {
		if text, ok := bytes.CutPrefix(line, []byte("btime ")); ok {
			boot, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
			return float64(boot) + (time.Duration(ticks) * clockTick).Seconds(), err
		}
	}
	return 0, fmt.Errorf("proc: no btime: %w", io.ErrUnexpectedEOF)
}

// memory returns the resident set, now and at its largest so far, in bytes.
func (p pid) memory() (now, peak float64, err error) {
	status, err := os.Open(p.file("status"))
	if err != nil {
		return 0, 0, err
	}
	defer status.Close()
	return parseStatus(status)
}

// parseStatus reads the resident set out of a /proc/PID/status. If it has none, because the process
// has ended, the error wraps io.ErrUnexpectedEOF.
func parseStatus(r io.Reader) (now, peak float64, err error) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		name, rest, _ := strings.Cut(lines.Text(), ":")
		if name != "VmRSS" && name != "VmHWM" {
			continue
		}
		kb, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 64)
		if err != nil {
			return 0, 0, fmt.Errorf("proc: %s: %w", name, err)
		}
		if name == "VmRSS" {
			now = kb * 1024
		} else {
			peak = kb * 1024
		}
	}
	if now == 0 {
		// The process has ended.
		return 0, 0, fmt.Errorf("proc: %w: no resident set", io.ErrUnexpectedEOF)
	}
	return now, max(now, peak), nil
}

// listening returns the process of this machine that listens on a TCP port. It returns false if
// there is none or we may not see it.
func listening(port int) (pid, bool) {
	sockets := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue
		}
		for _, inode := range parseListeners(f, port) {
			sockets["socket:["+inode+"]"] = true
		}
		f.Close()
	}
	if len(sockets) == 0 {
		return 0, false
	}
	open, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is right
	for _, fd := range open {
		if target, err := os.Readlink(fd); err == nil && sockets[target] {
			number, err := strconv.Atoi(strings.Split(fd, "/")[2])
			return pid(number), err == nil
		}
	}
	return 0, false
}

// parseListeners returns the inodes of the sockets in a /proc/net/tcp that listen on a port.
func parseListeners(r io.Reader, port int) (inodes []string) {
	const local, state, inode = 1, 3, 9
	const listen = "0A"
	for lines := bufio.NewScanner(r); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) > inode && fields[state] == listen && strings.HasSuffix(fields[local], fmt.Sprintf(":%04X", port)) {
			inodes = append(inodes, fields[inode])
		}
	}
	return inodes
}
