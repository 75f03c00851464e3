package doctor

import (
	"math"
	"math/bits"
	"time"
)

const (
	// maxBuckets limits the length of each series. A series uses 16 KiB.
	maxBuckets = 4096
	// narrowest is the initial width of a bucket, in microseconds. The width doubles whenever the logs
	// are longer than all buckets; for three days it is 64 s.
	narrowest = int64(time.Second / time.Microsecond)
)

// clock maps times to buckets, for all series. The zero value is ready; its first bucket starts at
// the first time that is passed to bucket.
type clock struct {
	begun     bool
	origin    int64 // microseconds since 1970
	doublings int
}

// width returns the width of a bucket in microseconds.
func (c *clock) width() int64 { return narrowest << c.doublings }

// bucket returns the number of the bucket of a time. If there are too few buckets, it makes all of
// them wider. A time before the first one is in bucket 0.
func (c *clock) bucket(at int64) int {
	if !c.begun {
		c.begun, c.origin = true, at
	}
	since := max(0, at-c.origin)
	for since/c.width() >= maxBuckets {
		c.doublings++
	}
	return int(since / c.width())
}

// series contains a number for each bucket of a clock, up to the last bucket that was changed. The
// zero value is empty.
type series struct {
	doublings int // the clock's doublings when n was last folded
	n         []uint32
}

// add adds n to a bucket.
func (s *series) add(c *clock, bucket int, n uint32) {
	s.fold(c)
	if more := bucket + 1 - len(s.n); more > 0 {
		s.n = append(s.n, make([]uint32, more)...)
	}
	if s.n[bucket] += n; s.n[bucket] < n {
		s.n[bucket] = ^uint32(0)
	}
}

// sum returns the sum of the buckets from one time to another, in microseconds since 1970.
func (s *series) sum(c *clock, from, to int64) (sum int64) {
	s.fold(c)
	first, end := max(0, from-c.origin)/c.width(), max(0, to-c.origin)/c.width()+1
	for _, n := range s.n[min(first, int64(len(s.n))):min(end, int64(len(s.n)))] {
		sum += int64(n)
	}
	return sum
}

// fold merges buckets until they are as wide as the clock's, and returns them.
func (s *series) fold(c *clock) []uint32 {
	for ; s.doublings < c.doublings; s.doublings++ {
		half := (len(s.n) + 1) / 2
		for i := range half {
			sum := s.n[2*i]
			if 2*i+1 < len(s.n) {
				sum += s.n[2*i+1]
			}
			s.n[i] = sum
		}
		s.n = s.n[:half]
	}
	return s.n
}

// peakSeconds is the number of seconds that a peak stores. A LIST is logged when it ends, at most a
// minute after its start.
const peakSeconds = 128

// peak finds the second in which the most requests ran. It uses 0.5 KB. The zero value contains no
// requests.
type peak struct {
	newest int64               // the last stored second, counted from 1970
	millis [peakSeconds]uint32 // for each second, the sum of the requests' times in it
	most   uint32
}

// add adds a request that ran between two times in microseconds since 1970. If it ran longer than
// peakSeconds, only the last peakSeconds count.
func (p *peak) add(from, to int64) {
	const second = narrowest
	last := (to - 1) / second
	if last <= p.newest-peakSeconds { // the request is from a log of an earlier time
		*p = peak{most: p.most}
	}
	p.advance(last)
	for from = max(from, (p.newest-peakSeconds+1)*second); from < to; {
		end := min(to, (from/second+1)*second)
		sum := &p.millis[from/second%peakSeconds]
		*sum += uint32((end - from) / 1000)
		p.most = max(p.most, *sum)
		from = end
	}
}

// advance stores further seconds, up to a given second, with the value 0. It does nothing if a
// later second is already stored. Seconds are counted from 1970.
func (p *peak) advance(to int64) {
	for s := max(p.newest, to-peakSeconds) + 1; s <= to; s++ {
		p.millis[s%peakSeconds] = 0
	}
	p.newest = max(p.newest, to)
}

// registers is the number of registers of an estimate, each of one byte. With 256 the error is 6.5
// %, which suffices for "on 2,000 nodes".
const registers = 256

// distinct estimates the number of different values (HyperLogLog). The zero value contains none.
type distinct struct {
	register [registers]uint8
}

// add counts a value, unless it is empty. It reports whether it recognizes the value as new; with
// many values, it recognizes only some of the new ones.
func (d *distinct) add(value []byte) bool { return len(value) > 0 && d.addHash(hash(value)) }

// addHash is like add, for the hash of a value.
func (d *distinct) addHash(h uint64) bool {
	at, zeros := h%registers, uint8(bits.LeadingZeros64(h)+1)
	if zeros <= d.register[at] {
		return false
	}
	d.register[at] = zeros
	return true
}

// count returns the estimated number of different values.
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
	if estimate <= 2.5*registers && empty > 0 { // few values: counting empty registers is more exact
		estimate = registers * math.Log(registers/float64(empty))
	}
	return int(math.Round(estimate))
}

// hash returns the FNV-1a hash of a value, mixed so that each bit depends on all bytes. Every
// process computes the same hash, so a log always gives the same report.
func hash(value []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range value {
		h = (h ^ uint64(c)) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
