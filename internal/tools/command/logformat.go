package command

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// AddLogFormat adds the flag --log-format to a program that calls Run, which implements the flag.
func AddLogFormat(fs *pflag.FlagSet) {
	fs.Var(new(logFormat), "log-format", "Format of messages on stderr: text, or json with one object per line")
}

// logFormat is the value of the flag --log-format. The default is text.
type logFormat string

func (f *logFormat) String() string { return cmp.Or(string(*f), "text") }
func (f *logFormat) Type() string   { return "format" }
func (f *logFormat) Set(to string) error {
	if to != "text" && to != "json" {
		return errors.New("unknown format")
	}
	*f = logFormat(to)
	return nil
}

// LogHandler returns the handler of a program's log on stderr, in the format that --log-format
// selects.
func LogHandler(level slog.Level) slog.Handler {
	o := &slog.HandlerOptions{Level: level}
	if logsJSON(os.Args[1:]) {
		return slog.NewJSONHandler(os.Stderr, o)
	}
	return slog.NewTextHandler(os.Stderr, o)
}

// logsJSON reports whether arguments contain --log-format json. It does not need the flags of the
// command, so that errors about them are JSON too, and so are messages of programs that run another
// program.
func logsJSON(args []string) (yes bool) {
	for i, arg := range args {
		if arg == "--" {
			break
		}
		value, given := strings.CutPrefix(arg, "--log-format=")
		if arg == "--log-format" && i+1 < len(args) {
			value, given = args[i+1], true
		}
		if given {
			yes = value == "json"
		}
	}
	return yes
}

const (
	// maxLogLine limits the length of a message, in bytes. A longer line becomes several messages.
	maxLogLine = 64 << 10
	// flushTime limits the wait for messages of children that outlive this process.
	flushTime = time.Second
)

// jsonStderr replaces os.Stderr by a pipe, and writes each line of it as JSON to the previous
// os.Stderr. This includes the lines of child processes. The function stop restores os.Stderr after
// all lines are written.
func jsonStderr() (stop func(), err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	to := os.Stderr
	os.Stderr = w
	ended := make(chan struct{})
	go func() { // ends when this process and its children have closed the pipe
		defer close(ended)
		logLines(to, r)
	}()
	return func() {
		os.Stderr = to
		_ = w.Close()
		select {
		case <-ended:
		case <-time.After(flushTime):
		}
	}, nil
}

// logLines writes each line of r to w as a JSON object. It does not change lines that are JSON
// objects already.
func logLines(w io.Writer, r io.Reader) {
	log := slog.New(slog.NewJSONHandler(w, nil))
	for lines := bufio.NewReaderSize(r, maxLogLine); ; {
		line, _, err := lines.ReadLine()
		if err != nil {
			return
		}
		text, failed := strings.CutPrefix(string(line), "error: ")
		switch {
		case len(bytes.TrimSpace(line)) == 0:
		case line[0] == '{' && json.Valid(line):
			_, _ = w.Write(append(line, '\n'))
		case failed:
			log.Error(text)
		default:
			log.Info(strings.TrimPrefix(text, "note: "))
		}
	}
}
