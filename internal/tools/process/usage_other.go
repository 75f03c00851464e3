//go:build !unix

package process

import "time"

// CPUTime returns 0, because this system does not report it.
func CPUTime() time.Duration { return 0 }

// maxRSS returns 0, because this system does not report it.
func maxRSS() int64 { return 0 }
