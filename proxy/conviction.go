package proxy

import "time"

// maxRefusals is how many times in a row a question may be refused by an upstream that can be reached. At the last of them its watches end.
const maxRefusals = 3

// conviction is what the answers to one question have led to.
type conviction struct {
	confirmed time.Time // of the last yes; zero: there was none
	doubted   bool      // a no came after the last yes
	refusals  int       // in a row, since the last yes
	since     time.Time // of the first of these
}

// keeps notes a verdict and reports whether watches may go on by it. A no counts when a second one comes before a yes. Without an answer they go on
// for grace after the last yes, or the caller's last yes that is remembered, if the upstream cannot be reached; and if it can, for maxRefusals,
// and for no longer than most after the first of these.
func (c *conviction) keeps(v verdict, now time.Time, grace, most time.Duration) bool {
	switch v {
	case yes:
		c.confirmed, c.doubted, c.refusals = now, false, 0
	case graced:
	case unreached:
		return now.Sub(c.confirmed) < grace
	case no:
		again := c.doubted
		c.doubted = true
		return !again
	default:
		if c.refusals == 0 {
			c.since = now
		}
		c.refusals++
		return c.refusals < maxRefusals && now.Sub(c.since) < most
	}
	return true
}
