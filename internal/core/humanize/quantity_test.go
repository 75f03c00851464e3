package humanize

import (
	"math"
	"testing"
	"time"

	"github.com/weirproject/weir/internal/testing/check"
)

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", 50_000: "50,000", 1_234_567: "1,234,567", -999: "-999", -1000: "-1,000",
	} {
		check.Equal(t, Count(n), want, "Count(%d) =", n)
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 512: "512 B", 999: "999 B", 1000: "1.00 KB", 55_300_000: "55.3 MB", 999_499: "999 KB", 999_600: "1.00 MB",
		1_183_000_000: "1.18 GB", 6_417_000_000_000_000: "6417 TB", -2_000_000: "-2.00 MB",
	} {
		check.Equal(t, Bytes(n), want, "Bytes(%d) =", n)
	}
}

func TestSeconds(t *testing.T) {
	for s, want := range map[float64]string{
		0: "0 ns", 480e-9: "480 ns", 12.4e-6: "12.4 µs", 0.32: "320 ms", 1.618: "1.62 s", 21.8: "21.8 s", 5400: "5400 s",
	} {
		check.Equal(t, Seconds(s), want, "Seconds(%v) =", s)
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.05123: "0.0512", 1.049: "1.05", 23: "23.0", 166.6: "167", 300_000: "300000", 0.0000001: "0.000000",
		math.Inf(1): "+Inf",
	} {
		check.Equal(t, Number(v), want, "Number(%v) =", v)
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 30 * time.Second: "30 s", 90 * time.Second: "1.5 min", 10 * time.Hour: "10 h", 100 * time.Minute: "1.67 h", 61 * time.Second: "1.02 min",
	} {
		check.Equal(t, Duration(d), want, "Duration(%v) =", d)
	}
}

func TestRounded(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.4: "0", 0.5: "1", 1999.6: "2,000"} {
		check.Equal(t, Rounded(v), want, "Rounded(%v) =", v)
	}
}
