//go:build !unix

package rusage

import "time"

// CPUTime returns 0: it is not known on this system.
func CPUTime() time.Duration { return 0 }

// maxRSS returns 0: it is not known on this system.
func maxRSS() int64 { return 0 }
