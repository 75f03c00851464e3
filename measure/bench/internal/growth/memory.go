package growth

import "github.com/prometheus/procfs"

// available returns the memory that this machine can provide, in bytes, or 0 if the system does not
// report it.
func available() float64 {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0
	}
	memory, err := fs.Meminfo()
	if err != nil || memory.MemAvailableBytes == nil {
		return 0
	}
	return float64(*memory.MemAvailableBytes)
}
