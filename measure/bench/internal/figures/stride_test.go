package figures

import "testing"

func TestStride(t *testing.T) {
	for _, n := range []int{1, 2, 10, 7919, 50_000, 2 * 7919} {
		seen, at := make([]bool, n), 0
		for i := range n {
			if seen[at] {
				t.Fatalf("%d: position %d comes twice within %d steps of %d", n, at, i, Stride(n))
			}
			seen[at] = true
			at = (at + Stride(n)) % n
		}
	}
}
