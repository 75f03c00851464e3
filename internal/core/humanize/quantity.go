// Package humanize formats values for people: quantities with few digits and a suitable unit,
// wrapped text, and the differences between two versions of an object, one line for each path.
package humanize

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Count formats an integer with commas between thousands, as in 50,000.
func Count(n int64) string {
	s := strconv.FormatInt(n, 10)
	s, negative := strings.CutPrefix(s, "-")
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if negative {
		return "-" + s
	}
	return s
}

// Rounded rounds a number that is not negative to an integer, and formats it like Count.
func Rounded(v float64) string { return Count(int64(v + 0.5)) }

// Bytes formats a number of bytes in a unit of 1,000, as in 55.3 MB.
func Bytes(n int64) string { return scaled(float64(n), []string{"B", "KB", "MB", "GB", "TB"}) }

// Seconds formats a time in seconds, as in 1.62 s or 480 ns.
func Seconds(s float64) string { return scaled(s*1e9, []string{"ns", "µs", "ms", "s"}) }

// Duration formats a time in hours, minutes or seconds, as in 10 h, 1.5 min or 30 s.
func Duration(d time.Duration) string {
	v, unit := d.Seconds(), "s"
	if d >= time.Hour {
		v, unit = d.Hours(), "h"
	} else if d >= time.Minute {
		v, unit = d.Minutes(), "min"
	}
	text := Number(v)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + " " + unit
}

// Number formats v with three significant digits and at most six decimals, as in 0.0512 or 1.05. A
// number of 100 or more has no decimals, as in 480.
func Number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case math.IsNaN(v), math.IsInf(v, 0):
		return strconv.FormatFloat(v, 'f', -1, 64)
	case math.Abs(v) >= 99.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	// Round first: 0.9996 must become 1.00, not 1.000.
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'e', 2, 64), 64)
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	return strconv.FormatFloat(v, 'f', min(digits, 6), 64)
}

// scaled formats v in the largest unit in which it is at least 1. v is in units[0], and each unit
// is 1,000 times the unit before it.
func scaled(v float64, units []string) string {
	i := 0
	for ; math.Abs(v) >= 999.5 && i < len(units)-1; i++ {
		v /= 1000
	}
	if i == 0 { // the smallest unit has no fraction
		return strconv.FormatFloat(math.Round(v), 'f', 0, 64) + " " + units[0]
	}
	return Number(v) + " " + units[i]
}

// Wrap splits a text into lines of at most width characters. It breaks lines only between words, so
// a longer word is a line of its own.
func Wrap(text string, width int) (lines []string) {
	for word := range strings.FieldsSeq(text) {
		last := len(lines) - 1
		if last >= 0 && utf8.RuneCountInString(lines[last])+1+utf8.RuneCountInString(word) <= width {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}
