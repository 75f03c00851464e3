package doctor

import (
	"math"
	"math/bits"
)

// registers is how many registers an estimate has: 256 of a byte each are right to 6.5 %, which is
// more than "on 2,000 nodes" needs.
const registers = 256

// distinct estimates how many different values it has been given (HyperLogLog). The zero value has
// none.
type distinct struct {
	register [registers]uint8
}

// add counts a value, unless it is empty. It reports whether the value is a new one; of many values
// it takes some that are new for old ones.
func (d *distinct) add(value []byte) bool {
	if len(value) == 0 {
		return false
	}
	h := hash(value)
	at, zeros := h%registers, uint8(bits.LeadingZeros64(h)+1)
	if zeros <= d.register[at] {
		return false
	}
	d.register[at] = zeros
	return true
}

// count returns the estimate.
func (d *distinct) count() int {
	sum, empty := 0.0, 0
	for _, zeros := range d.register {
		sum += math.Ldexp(1, -int(zeros))
		if zeros == 0 {
			empty++
		}
	}
	const bias = 0.7213 / (1 + 1.079/registers)
	estimate := bias * registers * registers / sum
	if estimate <= 2.5*registers && empty > 0 { // few values: the registers that are empty tell more
		estimate = registers * math.Log(registers/float64(empty))
	}
	return int(math.Round(estimate))
}

// hash returns the FNV-1a hash of a value, mixed so that all bits depend on all bytes. It is the
// same in each run, so that the report of a log is always the same.
func hash(value []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range value {
		h = (h ^ uint64(c)) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
