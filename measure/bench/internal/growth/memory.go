package growth

import (
	"os"
	"strconv"
	"strings"
)

// available returns the memory that this machine has to give, in bytes, or 0 if the machine does
// not tell.
func available() float64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	return availableOf(string(text))
}

func availableOf(meminfo string) float64 {
	for line := range strings.Lines(meminfo) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			if err != nil {
				return 0
			}
			return kib * 1024
		}
	}
	return 0
}
