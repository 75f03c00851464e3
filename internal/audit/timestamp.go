package audit

import "time"

// layout is how kube-apiserver writes a time, to the microsecond.
const layout = "2006-01-02T15:04:05.000000Z"

// timestamp returns the microseconds since 1970 of a time. Times as kube-apiserver writes them are
// read without a parser of layouts, which would take most of the time of a line.
func timestamp(b []byte) (int64, bool) {
	if micros, ok := utcMicros(b); ok {
		return micros, true
	}
	t, err := time.Parse(time.RFC3339Nano, string(b))
	return t.UnixMicro(), err == nil
}

// utcMicros reads a time in exactly the layout.
func utcMicros(b []byte) (int64, bool) {
	if len(b) != len(layout) {
		return 0, false
	}
	for i := range len(layout) {
		if digit := '0' <= layout[i] && layout[i] <= '9'; digit != ('0' <= b[i] && b[i] <= '9') || !digit && b[i] != layout[i] {
			return 0, false
		}
	}
	n := func(from, to int) (v int) {
		for _, c := range b[from:to] {
			v = v*10 + int(c-'0')
		}
		return v
	}
	month, day := n(5, 7), n(8, 10)
	if month < 1 || month > 12 || day < 1 || day > 28 || n(11, 13) > 23 || n(14, 16) > 59 || n(17, 19) > 59 {
		return 0, false // the last days of a month, and what is no time, are the parser's to decide
	}
	t := time.Date(n(0, 4), time.Month(month), day, n(11, 13), n(14, 16), n(17, 19), n(20, 26)*1000, time.UTC)
	return t.UnixMicro(), true
}
