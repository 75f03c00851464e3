package evidence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/weirproject/weir/internal/core/compress"
)

// openFile opens a file. It gives up when ctx ends, because a pipe opens only when another process
// opens it for writing.
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
				_ = file.Close() // nothing was written
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

// checked reads until ctx ends, from a source that never blocks for long.
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

// detached reads until ctx ends, from a source that may block, such as a pipe. When ctx ends during
// a read, that read and its goroutine continue. They end when the source has data or is closed.
type detached struct {
	ctx context.Context
	src io.Reader
	buf []byte // a read that continues after ctx writes here
}

// detachedBuffer is the capacity of a pipe.
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

// errDamaged is wrapped, with its cause, if a compressed log is cut off or is not valid gzip. It is
// not an error of the file that the bytes are read from.
var errDamaged = errors.New("damaged")

// damaged wraps an error of the compressed bytes. Unwrap returns that error.
type damaged struct{ cause error }

func (d *damaged) Error() string        { return fmt.Sprintf("%v: %v", errDamaged, d.cause) }
func (d *damaged) Unwrap() error        { return d.cause }
func (d *damaged) Is(target error) bool { return target == errDamaged }

// source keeps the error of the file that compressed bytes are read from, to distinguish it from an
// error in the bytes.
type source struct {
	io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// unzipper decompresses all members of a gzip file. The first Read reads the header, so that a log
// with half a header is damaged, like one that is cut off later.
type unzipper struct {
	from *source
	z    *compress.GzipReader
}

func (u *unzipper) Read(p []byte) (n int, err error) {
	if u.z == nil {
		u.z, err = compress.NewGzipReader(u.from)
	}
	if err == nil {
		n, err = u.z.Read(p)
	}
	switch {
	case err == nil || u.from.err == nil && err == io.EOF && u.z != nil:
		return n, err
	case u.from.err != nil:
		return n, u.from.err
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return n, &damaged{err}
}

// ErrFormat is wrapped by the error for a log whose compression or encoding is not supported.
var ErrFormat = errors.New("not read by doctor")

// formats are the other formats of files, with their first bytes and the command that decodes them.
var formats = []struct {
	at                    int
	magic, what, commands string
}{
	{0, "\x28\xb5\x2f\xfd", "compressed by zstd", "zstd -dc"},
	{0, "\xfd7zXZ\x00", "compressed by xz", "xz -dc"},
	{0, "BZh", "compressed by bzip2", "bzip2 -dc"},
	{0, "\x04\x22\x4d\x18", "compressed by lz4", "lz4 -dc"},
	{0, "\xff\x06\x00\x00sNaPpY", "compressed by snappy", "snzip -dc"},
	{0, "\x1f\x8b", "compressed by gzip twice", "gzip -dc"},
	{0, "\x1f\x9d", "compressed by compress", "gzip -dc"},
	{0, "PK\x03\x04", "a zip archive", "unzip -p"},
	{0, "7z\xbc\xaf\x27\x1c", "a 7z archive", "7z x -so"},
	{257, "ustar", "a tar archive", "tar -xOf"},
	{0, "\xff\xfe", "text in UTF-16", "iconv -f UTF-16 -t UTF-8"},
	{0, "\xfe\xff", "text in UTF-16", "iconv -f UTF-16 -t UTF-8"},
}

// longestMagic is how many bytes suffice to recognize each format.
const longestMagic = 512

// checkFormat returns an error that wraps ErrFormat if another program must decode the log.
func (l *Log) checkFormat() error {
	r := &l.records
	for r.err == nil && r.to < longestMagic {
		r.fill()
	}
	for _, f := range formats {
		if r.to > f.at && bytes.HasPrefix(r.buf[f.at:r.to], []byte(f.magic)) {
			return fmt.Errorf("%s is %s, which is %w: %s %s | weir doctor -", l.name, f.what, ErrFormat, f.commands, l.name)
		}
	}
	return nil
}
