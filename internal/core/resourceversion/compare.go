package resourceversion

// IsInteger reports whether a resourceVersion is a decimal integer, of any length.
func IsInteger(rv string) bool { return digits(rv) != "" }

// Older reports whether a and b are decimal integers, of any length, and a is lower. Only then is a
// certainly older than b.
func Older(a, b string) bool {
	a, b = digits(a), digits(b)
	if a == "" || b == "" {
		return false
	}
	if len(a) != len(b) {
		return len(a) < len(b)
	}
	return a < b
}

// Newest returns the newer of two resourceVersions. If they cannot be compared, it returns b, or a
// if b is empty.
func Newest(a, b string) string {
	if Older(b, a) || b == "" {
		return a
	}
	return b
}

// Incomparable reports whether two resourceVersions differ and at least one of them is not a
// decimal integer, so that their order is unknown.
func Incomparable(a, b string) bool {
	return a != b && !(IsInteger(a) && IsInteger(b))
}

// digits returns s without leading zeros, "0" for zero, or "" if s is not a decimal integer.
func digits(s string) string {
	if s == "" {
		return ""
	}
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return ""
		}
	}
	for len(s) > 1 && s[0] == '0' {
		s = s[1:]
	}
	return s
}
