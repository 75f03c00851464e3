package doctor

import "time"

const (
	// maxBuckets bounds each series: 16 KiB.
	maxBuckets = 4096
	// narrowest is a bucket's width at first. It doubles whenever the logs are longer than all
	// buckets: three days are in buckets of 64 s.
	narrowest = int64(time.Second / time.Microsecond)
)

// clock says which bucket a time is in, for all series alike. The zero value begins at the first
// time that it is asked about.
type clock struct {
	begun     bool
	origin    int64 // microseconds since 1970
	doublings int
}

// width returns the width of a bucket in microseconds.
func (c *clock) width() int64 { return narrowest << c.doublings }

// bucket returns the bucket of a time, and makes all of them wider if there are too few. A time
// before the first is in bucket 0.
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

// series is a number for each bucket of a clock. The zero value is empty, and holds no more than up
// to the last bucket that was added to.
type series struct {
	doublings int // of the clock, when the buckets were cut
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

// sum returns the sum of the buckets between two times, in microseconds since 1970.
func (s *series) sum(c *clock, from, to int64) (sum int64) {
	s.fold(c)
	first, end := max(0, from-c.origin)/c.width(), max(0, to-c.origin)/c.width()+1
	for _, n := range s.n[min(first, int64(len(s.n))):min(end, int64(len(s.n)))] {
		sum += int64(n)
	}
	return sum
}

// fold makes the buckets as wide as the clock's, and returns them.
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
