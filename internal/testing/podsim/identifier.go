package podsim

import (
	"math/rand/v2"

	"k8s.io/apimachinery/pkg/types"
)

// NameAlphabet contains the characters of the names that Kubernetes generates: no vowels, and none
// of the digits 0, 1 and 3.
const NameAlphabet = "bcdfghjklmnpqrstvwxz2456789"

// Hash returns n random characters of NameAlphabet.
func Hash(rnd *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = NameAlphabet[rnd.IntN(len(NameAlphabet))]
	}
	return string(b)
}

// Hex returns n random hexadecimal digits.
func Hex(rnd *rand.Rand, n int) string {
	const digits = "0123456789abcdef"
	b := make([]byte, n)
	for i := 0; i < n; i += 16 {
		v := rnd.Uint64()
		for j := i; j < min(i+16, n); j++ {
			b[j] = digits[v&15]
			v >>= 4
		}
	}
	return string(b)
}

// UID returns a random uid in the form of RFC 4122, version 4.
func UID(rnd *rand.Rand) types.UID {
	h := Hex(rnd, 32)
	return types.UID(h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-" + string("89ab"[rnd.IntN(4)]) + h[17:20] + "-" + h[20:])
}
