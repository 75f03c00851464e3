package codec

import "k8s.io/apimachinery/pkg/api/equality"

// Equal reports whether two values are equal by equality.Semantic. It returns false if
// equality.Semantic panics, for example at a field that reflection may not read.
func Equal(a, b any) bool {
	equal, _ := compare(a, b)
	return equal
}

// compare returns the same as Equal. ok is false if the comparison panicked.
func compare(a, b any) (equal, ok bool) {
	defer func() {
		if recover() != nil {
			equal, ok = false, false
		}
	}()
	return equality.Semantic.DeepEqual(a, b), true
}
