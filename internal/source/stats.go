package source

import (
	"io"
	"sync/atomic"
)

// Stats counts what a source did. One Stats may serve several sources. The zero value is ready; all
// fields may be read at any time.
type Stats struct {
	Requests  atomic.Int64 // HTTP requests made, the version's included
	Lists     atomic.Int64 // of these, LISTs (each page is one)
	Watches   atomic.Int64 // of these, WATCHes
	WireBytes atomic.Int64 // bytes of bodies as they came, compressed where they were
	BodyBytes atomic.Int64 // the same after decompression
}

// counter is a reader that adds what it reads to a sum.
type counter struct {
	r   io.Reader
	sum *atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.sum.Add(int64(n))
	return n, err
}
