package source

import (
	"io"
	"sync/atomic"
)

// Stats counts what a source did. Several sources may share one Stats. The zero value is ready for
// use. All fields may be read at any time.
type Stats struct {
	Requests  atomic.Int64 // HTTP requests made, those for the server's version included
	Lists     atomic.Int64 // of these, LISTs (each page is one)
	Watches   atomic.Int64 // of these, WATCHes
	WireBytes atomic.Int64 // bytes of bodies as received, before decompression
	BodyBytes atomic.Int64 // bytes of bodies after decompression
}

// counter is a reader that adds the number of bytes read to sum.
type counter struct {
	r   io.Reader
	sum *atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.sum.Add(int64(n))
	return n, err
}
