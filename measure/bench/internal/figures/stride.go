package figures

// Stride returns a step such that k*step modulo n, for k from 0 to n-1, visits each of n positions
// once. Positions that are visited one after the other are far apart.
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
