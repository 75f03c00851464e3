package apimetrics

import (
	"bufio"
	"bytes"
	"io"
)

// maxLine bounds a line of /metrics. Those of the metrics that are read are below 1 KB.
const maxLine = 1 << 20

// filter reads the lines of the metrics that are known, and leaves out all others and all comments:
// without their types, a histogram's sum and count are metrics of their own.
type filter struct {
	lines *bufio.Scanner
	rest  []byte // of the line that is being read
	err   error  // why the lines ended, if not at their end
}

func newFilter(r io.Reader) *filter {
	f := &filter{lines: bufio.NewScanner(r)}
	f.lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	return f
}

func (f *filter) Read(p []byte) (n int, err error) {
	for len(f.rest) == 0 {
		if !f.lines.Scan() {
			f.err = f.lines.Err()
			return 0, io.EOF
		}
		line := f.lines.Bytes()
		end := bytes.IndexAny(line, "{ ")
		if end < 0 || metrics[string(line[:end])] == nil {
			continue
		}
		f.rest = append(line, '\n')
	}
	n = copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}
