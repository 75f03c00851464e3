package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// openFile opens a file until ctx ends: a pipe opens when somebody writes to it.
func openFile(ctx context.Context, name string) (*os.File, os.FileInfo, error) {
	type opened struct {
		file *os.File
		err  error
	}
	done := make(chan opened)
	go func() {
		file, err := os.Open(name)
		select {
		case done <- opened{file, err}:
		case <-ctx.Done():
			if err == nil {
				_ = file.Close() // nobody has read it
			}
		}
	}()
	var o opened
	select {
	case o = <-done:
	case <-ctx.Done():
		return nil, nil, fmt.Errorf("open %s: %w", name, ctx.Err())
	}
	if o.err != nil {
		return nil, nil, o.err
	}
	info, err := o.file.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory; name the files in it", name)
	}
	if err != nil {
		return nil, nil, errors.Join(err, o.file.Close())
	}
	return o.file, info, nil
}

// checked reads until ctx ends, from what always has something to read.
type checked struct {
	ctx context.Context
	src io.Reader
}

func (c checked) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.src.Read(p)
}

// detached reads until ctx ends, from what may have nothing to read for long, such as a pipe. It
// leaves a read that is under way then, and its goroutine, to the source: they end when that has
// something, or is closed.
type detached struct {
	ctx context.Context
	src io.Reader
	buf []byte // what a read that is left behind writes to
}

// detachedBuffer is what a pipe holds.
const detachedBuffer = 64 << 10

func (d *detached) Read(p []byte) (int, error) {
	if err := d.ctx.Err(); err != nil {
		return 0, err
	}
	if d.buf == nil {
		d.buf = make([]byte, detachedBuffer)
	}
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	buf := d.buf[:min(len(p), len(d.buf))]
	go func() {
		n, err := d.src.Read(buf)
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		return copy(p, buf[:r.n]), r.err
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
}
