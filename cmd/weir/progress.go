package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/tools/command"
)

const (
	progressEvery = 100 * time.Millisecond // on a terminal
	progressLine  = 2 * time.Second        // otherwise
)

// progress shows the progress of a first list or of reading a log. On a terminal it shows a bar.
// Elsewhere, and on a terminal without cursor movements, it prints a line every progressLine.
type progress struct {
	out  io.Writer
	what string
	unit string                   // of the count
	bar  *progressbar.ProgressBar // nil if the progress is shown as lines

	begin, said time.Time
}

// newProgress returns a progress that writes to out. expected is the number of objects, or 0 if the
// number is unknown.
func newProgress(out io.Writer, what string, expected int) *progress {
	now := time.Now()
	p := &progress{out: out, what: what, unit: "objects", begin: now, said: now}
	if _, ok := terminal(out); !ok || os.Getenv("TERM") == "dumb" {
		return p
	}
	total := -1 // a spinner
	if expected > 0 {
		total = expected
	}
	p.bar = progressbar.NewOptions(total,
		progressbar.OptionSetWriter(out),
		progressbar.OptionSetDescription(what),
		progressbar.OptionSetWidth(24),
		progressbar.OptionSpinnerType(14),
		// Without this option the spinner draws itself, from a goroutine that continues after end.
		progressbar.OptionSetSpinnerChangeInterval(0),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionClearOnFinish(),
	)
	return p
}

// show shows the numbers of objects and bytes that were received so far.
func (p *progress) show(objects int, bytes int64) {
	now := time.Now()
	text := p.text(objects, bytes, now.Sub(p.begin))
	if p.bar != nil {
		if limit := p.bar.GetMax(); limit <= 0 || objects < limit { // a full bar would disappear
			_ = p.bar.Set(objects) // Set fails only if drawing fails; then no error can be shown
		}
		p.bar.Describe(text)
		return
	}
	if now.Sub(p.said) >= progressLine {
		p.said = now
		fmt.Fprintln(p.out, text)
	}
}

func (p *progress) text(objects int, bytes int64, elapsed time.Duration) string {
	rate := float64(objects) / max(elapsed.Seconds(), 1e-3)
	return fmt.Sprintf("%s: %s %s, %s, %s/s", p.what, humanize.Count(int64(objects)), p.unit, humanize.Bytes(bytes), humanize.Count(int64(rate)))
}

// passed shows how much of a period has passed. If out is not a terminal, passed only prints one
// line, at the start.
func (p *progress) passed(elapsed, period time.Duration) {
	if p.bar != nil {
		if seconds := int(elapsed.Seconds()); seconds < p.bar.GetMax() {
			_ = p.bar.Set(seconds)
		}
		p.bar.Describe(fmt.Sprintf("%s: %.0f s", p.what, (period - elapsed).Seconds()))
	} else if elapsed == 0 {
		fmt.Fprintf(p.out, "reading %s for %v\n", p.what, period)
	}
}

// say prints a line. If there is a bar, the line is above it.
func (p *progress) say(line string) {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	fmt.Fprintln(p.out, command.OneLineText(line))
}

// end removes the bar.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Clear()
		_ = p.bar.Exit()
		_ = p.bar.Clear()
	}
}

// terminal returns the file descriptor of w and true if w is a terminal, and otherwise 0 and false.
func terminal(w io.Writer) (int, bool) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	return int(f.Fd()), true
}

// terminalSize returns the size of the terminal w, or zeros if w is not one or does not report it.
func terminalSize(w io.Writer) (width, height int) {
	fd, ok := terminal(w)
	if !ok {
		return 0, 0
	}
	width, height, err := term.GetSize(fd)
	if err != nil {
		return 0, 0
	}
	return width, height
}
