package main

import (
	"io"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/weirproject/weir/internal/core/humanize"
	"github.com/weirproject/weir/internal/tools/command"
)

// sheet prints the objects and the changes of all resources that are watched together: the objects
// as one table, the changes as another. It is safe for concurrent use: writes do not interleave.
type sheet struct {
	watches    int      // if more than one, each name starts with its kind
	namespaced bool     // several namespaces are watched
	columns    []string // after the name: those of all resources, first of the one with the most

	mu      sync.Mutex
	out     checkedWriter
	size    func() (width, height int) // of the terminal; 0: no terminal
	colour  bool
	objects *table
	changes *table // with -o custom-columns, the same as objects
	headed  *table // the table whose header was printed last
}

// newSheet returns the sheet that prints the objects and changes of all watches to out.
func newSheet(out io.Writer, watches ...*watch) *sheet {
	s := &sheet{
		watches: len(watches), out: checkedWriter{out, make(chan error, 1)}, size: func() (int, int) { return terminalSize(out) },
		colour: coloured(out),
	}
	ordered := slices.Clone(watches)
	slices.SortStableFunc(ordered, func(a, b *watch) int { return len(b.headers()) - len(a.headers()) })
	for _, w := range ordered {
		s.namespaced = s.namespaced || w.resource.Namespaced && w.namespace == ""
		w.positions = s.place(w.headers())
	}
	s.objects = &table{out: s.out, header: s.cells("NAMESPACE", "NAME", s.columns)}
	s.changes = &table{out: s.out, header: slices.Concat([]string{"TIME", "EVENT"}, s.objects.header), colour: s.colour}
	return s
}

// place returns the position of each header of a resource among the columns, and -1 for "". It adds
// columns for new headers. Resources share columns, but two equal headers of one resource do not.
func (s *sheet) place(headers []string) (positions []int) {
	for _, header := range headers {
		at := -1
		for i := 0; header != "" && at < 0; i++ {
			if i == len(s.columns) {
				s.columns = append(s.columns, header)
			}
			if s.columns[i] == header && !slices.Contains(positions, i) {
				at = i
			}
		}
		positions = append(positions, at)
	}
	return positions
}

// fit makes the columns of one of the sheet's tables wide enough for these cells.
func (s *sheet) fit(t *table, cells ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.fit(cells...)
}

// row prints a row of one of the sheet's tables, and the text below it. old contains the cells
// before a change, or is nil. row prints the names of the columns first if the last row was one of
// the other table, or the terminal has another width now.
func (s *sheet) row(t *table, cells, old []string, below []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if width, _ := s.size(); s.headed != t || t.limit != width {
		s.headed, t.limit = t, width
		t.fit(cells...)
		if err := t.row(t.header...); err != nil {
			return err
		}
	}
	if err := t.changed(cells, old); err != nil {
		return err
	}
	_, err := s.out.Write(below)
	return err
}

// cells returns the cells of a row about an object. It omits the namespace if at most one is
// watched.
func (s *sheet) cells(namespace, name string, more []string) []string {
	cells := make([]string, 0, 2+len(more))
	if s.namespaced {
		cells = append(cells, namespace)
	}
	return append(append(cells, name), more...)
}

// Write writes output that is not a row of the table.
func (s *sheet) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(p)
}

// table prints aligned rows. It prints each row immediately, while text/tabwriter would wait for
// the later rows. A column is as wide as its widest cell so far, or narrower if the rows would not
// fit into the limit. Callers announce the cells of later rows with fit. A table is not safe for
// concurrent use.
type table struct {
	out    io.Writer
	header []string // the names of the columns, if they may become narrower
	limit  int      // runes per line; 0: no limit
	colour bool     // of changed cells
	widths []int
	wide   []int // with "old → new" in changed cells
}

const gap = "  "

// maxWidth limits the width to which a cell widens its column, in runes: the server determines the
// cells. A longer cell moves the rest of its own row.
const maxWidth = 200

// fit makes the columns wide enough for these cells.
func (p *table) fit(cells ...string) {
	cells = printable(cells)
	for i, cell := range cells {
		if i == len(p.widths) {
			p.widths, p.wide = append(p.widths, 0), append(p.wide, 0)
		}
		p.widths[i] = max(p.widths[i], min(maxWidth, utf8.RuneCountInString(cell)))
	}
}

// row prints a row. It cuts off what exceeds the limit, and replaces characters that would move a
// terminal's cursor, because cells contain names that clients chose.
func (p *table) row(cells ...string) error { return p.changed(cells, nil) }

// changed prints a row like row. If old is not nil, it contains the cells before a change. A cell
// that differs is printed as "old → new" if the line has room for this, and in colour.
func (p *table) changed(cells, old []string) error {
	cells, old = printable(cells), printable(old)
	p.fit(cells...)
	both := make([]string, len(cells)) // "" if the cell has not changed
	for i := range old {
		if old[i] != cells[i] && old[i] != "" {
			both[i] = old[i] + arrow + cells[i]
			p.wide[i] = max(p.wide[i], min(maxWidth, utf8.RuneCountInString(both[i])))
		}
	}
	widths := p.narrowed()
	var line []rune
	var coloured [][2]int // ranges of line
	for i, cell := range cells {
		if widths[i] == 0 && p.widths[i] > 0 {
			continue // the column is omitted
		}
		if i > 0 { // the first column is never omitted
			line = append(line, []rune(gap)...)
		}
		if both[i] != "" && (p.limit == 0 || utf8.RuneCountInString(both[i]) <= widths[i]) {
			cell = both[i]
		} else if widths[i] < p.widths[i] {
			cell = p.shortened(i, cell, widths[i])
		}
		begin := len(line)
		line = append(line, []rune(cell)...)
		if old != nil && old[i] != cells[i] {
			coloured = append(coloured, [2]int{begin, len(line)})
		}
		for i < len(cells)-1 && len(line) < begin+widths[i] {
			line = append(line, ' ')
		}
	}
	if p.limit > 0 {
		line = []rune(humanize.Cut(string(line), p.limit))
	}
	for _, r := range slices.Backward(coloured) {
		if begin, end := r[0], min(r[1], len(line)); p.colour && begin < end {
			line = slices.Concat(line[:begin], []rune(colours['~']), line[begin:end], []rune(plain), line[end:])
		}
	}
	_, err := io.WriteString(p.out, strings.TrimRight(string(line), " ")+"\n")
	return err
}

const arrow = " → "

// narrowed returns the widths of the columns with which a row fits into the limit. Columns become
// narrower in the order of narrow, and 0 if they are omitted. If there is room, columns become wide
// enough for their changed cells.
func (p *table) narrowed() []int {
	room := p.limit + len(gap)
	for _, width := range p.widths {
		room -= width + len(gap)
	}
	widths := slices.Clone(p.widths)
	if p.limit > 0 && len(p.header) == len(p.widths) {
		for _, n := range narrow(p.header) {
			if room >= 0 {
				break
			}
			before := widths[n.column]
			switch {
			case n.width > 0:
				widths[n.column] = max(min(before, n.width), before+room)
			case before > 0:
				widths[n.column], room = 0, room+len(gap)
			}
			room += before - widths[n.column]
		}
		if name := slices.Index(p.header, "NAME"); name >= 0 && room > 0 { // what an omitted column left
			more := min(p.widths[name]-widths[name], room)
			widths[name], room = widths[name]+more, room-more
		}
	}
	for i, width := range widths {
		if more := p.wide[i] - width; more > 0 && width == p.widths[i] && (p.limit == 0 || more <= room) {
			widths[i], room = p.wide[i], room-more
		}
	}
	return widths
}

// narrowing is a step that makes a row shorter: down to a width, or to 0.
type narrowing struct{ column, width int }

// The smallest widths of columns before others are omitted.
const (
	smallCell      = 8
	smallNamespace = 10
	smallName      = 20
	tinyName       = 12
)

// narrow returns the order in which columns become narrower: first those after the name, from the
// last one on; then the time loses its milliseconds, and the name and the namespace become shorter.
// Then columns after the name are omitted: first the age and those after it, of -o wide, and after
// the name has become shorter again the others. READY and STATUS remain whole.
func narrow(header []string) []narrowing {
	name := slices.Index(header, "NAME")
	if name < 0 {
		return nil
	}
	var steps, omitted []narrowing
	for i := len(header) - 1; i > name; i-- {
		if header[i] != "READY" && header[i] != "STATUS" {
			steps, omitted = append(steps, narrowing{i, smallCell}), append(omitted, narrowing{i, 0})
		}
	}
	for i, h := range header[:name] {
		switch h {
		case "TIME":
			steps = append(steps, narrowing{i, smallCell}, narrowing{name, smallName})
		case "NAMESPACE":
			steps = append(steps, narrowing{name, smallName}, narrowing{i, smallNamespace})
		}
	}
	steps = append(steps, narrowing{name, smallName})
	first := slices.IndexFunc(omitted, func(n narrowing) bool { return header[n.column] == "AGE" }) + 1
	steps = append(append(steps, omitted[:first]...), narrowing{name, tinyName})
	return append(steps, omitted[first:]...)
}

// shortened returns a cell in at most limit runes: the time without its end, the name without its
// middle, because the names of a controller's pods differ at the end.
func (p *table) shortened(column int, cell string, limit int) string {
	runes := []rune(cell)
	switch {
	case len(runes) <= limit:
		return cell
	case p.header[column] == "TIME":
		return string(runes[:limit])
	case p.header[column] == "NAME":
		return string(runes[:limit/2]) + "…" + string(runes[len(runes)-(limit-1-limit/2):])
	}
	return humanize.Cut(cell, limit)
}

func printable(cells []string) []string {
	cells = slices.Clone(cells)
	for i, cell := range cells {
		cells[i] = command.Printable(cell)
	}
	return cells
}

// writeError wraps the error of a failed write to stdout.
type writeError struct{ error }

func (e writeError) Unwrap() error { return e.error }

// checkedWriter passes its input on to another writer. If a write fails, it sends the error to
// failed, unless failed already contains an error.
type checkedWriter struct {
	to     io.Writer
	failed chan error // of capacity one
}

func (w checkedWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	if err == nil {
		return n, nil
	}
	err = writeError{err}
	select {
	case w.failed <- err:
	default:
	}
	return n, err
}
