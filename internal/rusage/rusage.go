// Package rusage tells what this process has used of the machine, as its figures and those of its
// benchmarks are told.
package rusage

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
)

// PeakRSS returns the largest resident set that this process has had, in bytes; 0 where the system
// does not tell.
func PeakRSS() int64 {
	status, err := os.Open("/proc/self/status")
	if err != nil {
		return maxRSS()
	}
	defer status.Close()
	for lines := bufio.NewScanner(status); lines.Scan(); {
		// VmHWM:	   55424 kB
		if kb, ok := bytes.CutPrefix(lines.Bytes(), []byte("VmHWM:")); ok {
			n, err := strconv.ParseInt(string(bytes.Fields(kb)[0]), 10, 64)
			if err == nil {
				return n << 10
			}
		}
	}
	return maxRSS()
}
