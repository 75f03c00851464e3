package resourceversion

import "strconv"

// maxDigits is the number of digits of the largest 64-bit integer.
const maxDigits = 20

// Parse parses a resourceVersion that is a decimal 64-bit integer. It accepts leading zeros, as
// kube-apiserver does in a request. The error is a *strconv.NumError.
func Parse[T ~string | ~[]byte](text T) (uint64, error) {
	return strconv.ParseUint(string(text), 10, 64)
}

// Number returns the result of Parse, or 0 if text is not an integer. No object has resourceVersion
// 0.
func Number[T ~string | ~[]byte](text T) uint64 {
	rv, err := Parse(text)
	if err != nil {
		return 0
	}
	return rv
}

// ParseCanonical parses a resourceVersion in the form that Format writes: a decimal 64-bit integer
// without leading zeros, or "0". ok is false for any other text. ParseCanonical does not allocate.
func ParseCanonical[T ~string | ~[]byte](text T) (rv uint64, ok bool) {
	if len(text) == 0 || len(text) > maxDigits || len(text) > 1 && text[0] == '0' {
		return 0, false
	}
	for i := range len(text) {
		d := text[i] - '0'
		if d > 9 {
			return 0, false
		}
		if rv > (1<<64-1-uint64(d))/10 {
			return 0, false
		}
		rv = rv*10 + uint64(d)
	}
	return rv, true
}

// Format returns the text of a resourceVersion.
func Format(rv uint64) string { return strconv.FormatUint(rv, 10) }
