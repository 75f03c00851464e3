package process

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
)

// PeakRSS returns the largest resident set size that this process has had, in bytes. It returns 0
// if the system does not report it.
func PeakRSS() int64 {
	if n, ok := ofStatus("VmHWM:"); ok {
		return n
	}
	return maxRSS()
}

// RSS returns the resident set size of this process, in bytes. It returns false if the system does
// not report it.
func RSS() (int64, bool) { return ofStatus("VmRSS:") }

// ofStatus returns a size from the line of Linux's /proc/self/status with this name, in bytes.
func ofStatus(name string) (size int64, ok bool) {
	status, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, false
	}
	defer status.Close()
	for lines := bufio.NewScanner(status); lines.Scan(); {
		// A line: "VmHWM:    55424 kB".
		if kb, ok := bytes.CutPrefix(lines.Bytes(), []byte(name)); ok {
			n, err := strconv.ParseInt(string(bytes.Fields(kb)[0]), 10, 64)
			return n << 10, err == nil
		}
	}
	return 0, false
}
