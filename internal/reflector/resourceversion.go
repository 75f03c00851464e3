package reflector

// older reports whether resourceVersion a is known to be older than b. Versions are decimal
// integers that only grow. Nothing is older than, or newer than, one that is no integer or is
// missing.
func older(a, b string) bool {
	a, b = digits(a), digits(b)
	if a == "" || b == "" {
		return false
	}
	if len(a) != len(b) {
		return len(a) < len(b)
	}
	return a < b
}

// newest returns the newer of two resourceVersions. It returns b if the two cannot be compared and
// b is not empty.
func newest(a, b string) string {
	if older(b, a) || b == "" {
		return a
	}
	return b
}

// incomparable reports whether a server whose newest resourceVersion is a cannot be compared with
// what is held at b: the two differ, and one of them is no integer, or missing.
func incomparable(a, b string) bool {
	return a != b && (digits(a) == "" || digits(b) == "")
}

// digits returns s without leading zeros, "0" for zero, or "" if s is no decimal integer.
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

// streams reports whether a kube-apiserver of this version encodes a LIST while it sends it
// (KEP-5116, on by default since 1.33). There, a LIST without a limit costs the server little.
func streams(major, minor int) bool {
	return major > 1 || major == 1 && minor >= 33
}
