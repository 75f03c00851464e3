package audit

import (
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
)

// errDamaged is wrapped, with its cause, where a compressed log is cut off or its bytes are none of
// gzip's. It is no error of the file that the bytes come from.
var errDamaged = errors.New("damaged")

// damaged wraps what is wrong with compressed bytes. Unwrap returns that.
type damaged struct{ cause error }

func (d *damaged) Error() string        { return fmt.Sprintf("%v: %v", errDamaged, d.cause) }
func (d *damaged) Unwrap() error        { return d.cause }
func (d *damaged) Is(target error) bool { return target == errDamaged }

// source keeps the error of what compressed bytes come from, to tell it from one of the bytes.
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

// unzipper reads what is compressed, one member behind the other. It opens the first with the first
// Read, so that a log of which only some bytes of the header were written is damaged like one that
// is cut off later.
type unzipper struct {
	from *source
	z    *gzip.Reader
}

func (u *unzipper) Read(p []byte) (n int, err error) {
	if u.z == nil {
		u.z, err = gzip.NewReader(u.from)
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
