package figures

// Stride returns a step that visits each of n positions, modulo n, before it repeats one.
// Neighbours in time are far apart.
func Stride(n int) int {
	step := 7919
	for gcd(step, n) != 1 {
		step++
	}
	return step
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
