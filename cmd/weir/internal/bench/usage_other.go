//go:build !unix

package bench

import "time"

// cpuTime is not known on this system: its figures read 0.
func cpuTime() time.Duration { return 0 }

// maxRSS is not known on this system: its figures read 0.
func maxRSS() int64 { return 0 }
