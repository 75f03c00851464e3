package lab

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/tools/chart"
	"github.com/weirproject/weir/measure/bench/internal/figures"
)

// Report is what was measured. The JSON names are a promise, and so are those of the figures.
type Report struct {
	At        time.Time  `json:"at"`
	Pods      int        `json:"pods"`           // of all incidents but those that have fewer
	Real      bool       `json:"real,omitempty"` // on a kube-apiserver; else on the embedded server
	CPUs      int        `json:"cpus"`
	Go        string     `json:"go"`
	Incidents []Replayed `json:"incidents"`
}

// Replayed is an incident, and what each side did.
type Replayed struct {
	Incident `json:"-"`
	Name     string           `json:"name"`
	Pods     int              `json:"pods"`
	Sides    []figures.Traced `json:"sides"`
}

// WriteTable writes a table for each incident, of at most 100 columns.
func (r *Report) WriteTable(w io.Writer) error {
	for n, i := range r.Incidents {
		if n > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s: %s\n", i.Name, i.title())
		rows := append([][]string{append([]string{""}, i.Columns()...)}, i.Rows()...)
		if err := figures.Write(w, figures.Fit(rows), rows...); err != nil {
			return err
		}
		for _, line := range wrapped(r.Note(i), tableWidth) {
			fmt.Fprintln(w, line)
		}
	}
	_, err := fmt.Fprintf(w, "\none run of each side on %d CPUs, %s\n", r.CPUs, r.Go)
	return err
}

// tableWidth is how long a line on the terminal is at most.
const tableWidth = 100

// wrapped cuts text into lines of at most width bytes, between words.
func wrapped(text string, width int) (lines []string) {
	for _, word := range strings.Fields(text) {
		if last := len(lines) - 1; last >= 0 && len(lines[last])+1+len(word) <= width {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}

// Note returns what readers of the figures have to know about the server that they come from, or ""
// if that is nothing.
func (r *Report) Note(i Replayed) string {
	if r.Real {
		return ""
	}
	return i.Embedded
}

// title returns the title of the picture.
func (i Replayed) title() string {
	title := i.Title
	if i.clients != nil {
		title = fmt.Sprintf(title, humanize.Count(int64(i.clients(i.Pods))))
	}
	return fmt.Sprintf("%s, %s pods", title, humanize.Count(int64(i.Pods)))
}

// Chart draws the incident as an SVG that needs nothing else.
func (i Replayed) Chart() string {
	lines := make([]chart.Line, len(i.Sides))
	for n, s := range i.Sides {
		lines[n] = i.curve.lineOf(s.Label, s.Trace)
	}
	return chart.Lines(i.title(), i.curve.unit.Text, lines)
}

// WriteCharts writes each incident's picture to NAME.svg in a directory that exists.
func (r *Report) WriteCharts(dir string) error {
	for _, i := range r.Incidents {
		if err := os.WriteFile(filepath.Join(dir, i.Name+".svg"), []byte(i.Chart()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
