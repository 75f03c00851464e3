package audit

import (
	"bytes"
	"errors"
	"fmt"
)

// ErrFormat is wrapped by the error of a log that is compressed or encoded in a way that is not
// read.
var ErrFormat = errors.New("not read by doctor")

// formats are what a log may be in, by its first bytes, and the command that writes the log.
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

// longestMagic is how many bytes tell each format.
const longestMagic = 512

// checkFormat returns an error that wraps ErrFormat if the log must be decoded by another program.
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
