package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// openLog opens the log with a name. The name - is stdin. The second result reports whether the log
// is a file that can be read again from its start.
func openLog(name string, stdin io.Reader) (log *Log, again bool, err error) {
	if name == "-" {
		log, err := NewLog("stdin", stdin)
		return log, false, err
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, false, err
	}
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory; name the files in it", name)
	}
	if err != nil {
		return nil, false, errors.Join(err, file.Close())
	}
	log, err = newFileLog(name, file)
	return log, info.Mode().IsRegular(), err
}

// newFileLog returns the log of a file. The log owns the file, and newFileLog closes the file if it
// returns an error.
func newFileLog(name string, f *os.File) (*Log, error) {
	l, err := NewLog(name, f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	l.file = f
	return l, nil
}

// source is the reader of compressed bytes. It stores the error of the underlying reader, so that
// callers can distinguish that error from an error in the bytes.
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

// ErrFormat is wrapped by the error for a log with an unsupported compression or encoding.
var ErrFormat = errors.New("not read by doctor")

// formats are the formats that another program must decode: their first bytes and the command.
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

// longestMagic is the number of bytes that suffice to recognize every format.
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
