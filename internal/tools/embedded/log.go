package embedded

import (
	"errors"
	"io/fs"
	"os"
)

// maxLog limits the size of an audit log's file, as kube-apiserver does by default, in bytes.
const maxLog = 100 << 20

// log is a file of bounded size. Before the file would become larger, log renames it to NAME.1,
// which replaces the previous NAME.1, and starts a new file. It is not safe for concurrent use.
type log struct {
	*os.File
	size, max int64
}

// openLog opens a log for appending.
func openLog(name string, maxSize int64) (*log, error) {
	l := &log{max: maxSize}
	return l, l.open(name)
}

// open opens the file. If this fails, l keeps the previous file, and Write tries again.
func (l *log) open(name string) error {
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	l.File = file
	info, err := l.Stat()
	if err == nil {
		l.size = info.Size()
	}
	return err
}

// Write appends p, which is a whole line.
func (l *log) Write(p []byte) (int, error) {
	if l.size > 0 && l.size+int64(len(p)) > l.max {
		// The file does not exist if an earlier open failed.
		if err := os.Rename(l.Name(), l.Name()+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		previous := l.File
		if err := l.open(l.Name()); err != nil {
			return 0, err
		}
		_ = previous.Close() // its lines are written
	}
	n, err := l.File.Write(p)
	l.size += int64(n)
	return n, err
}
