//go:build unix

package servers

import (
	"fmt"
	"syscall"
)

// enoughFiles returns an error if this process may not open that number of connections. Go itself
// raises the soft limit to the hard limit.
func enoughFiles(connections int) error {
	const others = 200
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return nil
	}
	if need := uint64(connections + others); uint64(limit.Cur) < need {
		return fmt.Errorf("%d connections need %d open files, and this process may have %d: see ulimit -n", connections, need, limit.Cur)
	}
	return nil
}
